"""Data sets, inputs of graphs and variables, written to files and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime import dataset_extractor, utils
from ipu_runtime.data.ops.dataset_ops import BufferDataset
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue

pytestmark = pytest.mark.slow
v1 = tf.compat.v1

IMAGES = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
LABELS = np.arange(4, dtype=np.int32)


def _data() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((IMAGES, LABELS))


def test_every_part_of_an_element_gets_a_file(tmp_path: Path, capsys: Any) -> None:
    utils.export_dataset_to_file(_data(), str(tmp_path / "data.bin"), 3, "train")
    np.testing.assert_array_equal(np.load(tmp_path / "data.0.bin"), IMAGES[:3])
    np.testing.assert_array_equal(np.load(tmp_path / "data.1.bin"), LABELS[:3])
    assert "train: 3 elements written" in capsys.readouterr().out


def test_an_infeed_is_written_in_a_graph_too(tmp_path: Path, capsys: Any) -> None:
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(_data().map(lambda image, _: image), feed_name="in")
        utils.export_dataset_to_file(infeed, str(tmp_path / "data.bin"), 4)
    np.testing.assert_array_equal(np.load(tmp_path / "data.bin"), IMAGES)
    assert "in: 4 elements" in capsys.readouterr().out


def test_inputs_are_written_by_name(tmp_path: Path) -> None:
    file = tmp_path / "inputs.bin"
    with tf.Graph().as_default():
        x, y = (v1.placeholder(tf.float32, [2], name=name) for name in ("x", "y"))
        utils.export_inputs_to_file([x, y], str(file), {x: [1, 2], y: [3, 4]})
    written = np.load(file)
    assert {name: written[name].tolist() for name in written} == {
        "x": [1, 2],
        "y": [3, 4],
    }
    with pytest.raises(RuntimeError, match="eager mode"):
        utils.export_inputs_to_file([], str(file), {})


def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    file = str(tmp_path / "data.bin")
    with pytest.raises(ValueError, match="`num_elements` is 9, but the data set has 4"):
        utils.export_dataset_to_file(_data(), file, 9)
    with pytest.raises(ValueError, match="at least 1"):
        utils.export_dataset_to_file(_data(), file, 0)
    with pytest.raises(TypeError, match=r"must be a tf\.data\.Dataset"):
        utils.export_dataset_to_file([1, 2], file, 1)


def test_variables_come_back_in_a_graph(tmp_path: Path) -> None:
    file = str(tmp_path / "variables.bin")
    with tf.Graph().as_default(), v1.Session() as session:
        both = [v1.get_variable(name, initializer=[1.0, 2.0]) for name in ("a", "b")]
        names = dataset_extractor.get_variable_handles(both)
        exported = dataset_extractor.export_variables(both, names, file)
        zeros = [variable.assign([0.0, 0.0]) for variable in both]
        imported = dataset_extractor.import_variables(both, [file])
        session.run(v1.global_variables_initializer())
        session.run(both[1].assign([3.0, 4.0]))
        session.run(exported)
        session.run(zeros)
        session.run(imported)
        assert names == ["a", "b"]
        assert [value.tolist() for value in session.run(both)] == [[1, 2], [3, 4]]


def test_variables_are_read_only_where_they_fit(tmp_path: Path) -> None:
    file = str(tmp_path / "variables.bin")
    kept = [tf.Variable([1.0, 2.0], name="a"), tf.Variable([3, 4], name="b")]
    dataset_extractor.export_variables(kept, ["a", "b"], file, print_stats=False)
    single = tf.Variable([0.0, 0.0], name="a")
    with pytest.raises(ValueError, match=r"hold \['b'\] besides"):
        dataset_extractor.import_variables([single], [file])
    dataset_extractor.import_variables([single], [file], strict=False)
    np.testing.assert_array_equal(single, [1, 2])
    for other, wrong in (
        (tf.Variable([0.0], name="a"), r"a is float32\[2\] in the files"),
        (tf.Variable([0, 0], name="a"), r"the variable is int32\[2\]"),
        (tf.Variable([0.0], name="c"), r"lack \['c'\]"),
    ):
        with pytest.raises(ValueError, match=wrong):
            dataset_extractor.import_variables([other], [file], strict=False)
    with pytest.raises(NotImplementedError, match="metadata"):
        dataset_extractor.export_variables(kept, ["a", "b"], file, metadata="m")


def test_a_buffered_data_set_gives_whole_buffers_only() -> None:
    data = BufferDataset(_data(), 3)
    assert data.element_spec == _data().element_spec
    assert [int(label) for _, label in data] == [0, 1, 2]
