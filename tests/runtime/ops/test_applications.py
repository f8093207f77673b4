"""Programs that are compiled into files, started, called and served."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime import loops, serving
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.ops import embedded_runtime
from ipu_runtime.ops.application_compile_op import (
    experimental_application_compile_op as compile_op,
)
from ipu_runtime.pipelining.pipeline_op import pipeline
from tests.runtime.ops.replicated import configure

pytestmark = pytest.mark.slow
v1 = tf.compat.v1

ELEMENTS = np.arange(12, dtype=np.float32).reshape(4, 3)


def _data() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(np.zeros((8, 3), np.float32))


def _called(path: Any, startup: Any = ()) -> list[list[np.ndarray]]:
    """Start a program and call it with every element; return what it gives."""
    context = embedded_runtime.embedded_runtime_start(path, startup, "engine")
    results = [
        embedded_runtime.embedded_runtime_call([tf.constant(element)], context)
        for element in ELEMENTS
    ]
    return [[item.numpy() for item in result] for result in results]


def _weighted_loop(weight: Any) -> Any:
    """Return a program that scales elements, and sums them up, in a loop."""
    infeed, outfeed = IPUInfeedQueue(_data()), IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def body(x: Any) -> None:
        outfeed.enqueue({"scaled": x * weight, "sum": tf.reduce_sum(x)})

    return lambda: loops.repeat(4, body, [], infeed)


def test_a_frozen_program_keeps_the_values_of_its_variables(tmp_path: Path) -> None:
    weight = tf.Variable([1.0, 2.0, 3.0], name="weight")
    path = str(tmp_path / "program.poplar_exec")
    compiled = compile_op(
        _weighted_loop(weight), output_path=path, freeze_variables=True
    )
    assert compiled.numpy() == path.encode()
    weight.assign([0.0, 0.0, 0.0])
    results = _called(compiled, [])
    for element, (scaled, total) in zip(ELEMENTS, results, strict=True):
        np.testing.assert_allclose(scaled, element * [1, 2, 3])
        np.testing.assert_allclose(total, element.sum())


def test_variables_are_given_at_the_start_unless_frozen() -> None:
    weight = tf.Variable([1.0, 2.0, 3.0], name="layer/weight")
    path = compile_op(_weighted_loop(weight))
    named = {"XLA_Args/layer/weight": tf.constant([5.0, 5.0, 5.0])}
    np.testing.assert_allclose(_called(path, named)[2][0], ELEMENTS[2] * 5)
    listed = [np.array([2.0, 2.0, 2.0], np.float32)]
    np.testing.assert_allclose(_called(path, listed)[2][0], ELEMENTS[2] * 2)
    start = embedded_runtime.embedded_runtime_start
    with pytest.raises(ValueError, match="with name 'XLA_Args/layer/weight'"):
        start(path, {}, "engine")
    with pytest.raises(ValueError, match="expects 1 inputs, but 0"):
        start(path, [], "engine")
    with pytest.raises(TypeError, match="to be a list"):
        start(path, 5, "engine")
    with pytest.raises(
        ValueError, match=r"Expected \[3\], but input 0 has shape \[2\]"
    ):
        start(path, [tf.zeros(2)], "engine")
    with pytest.raises(
        TypeError, match="Expected float32, but input 0 has dtype int32"
    ):
        start(path, [tf.zeros(3, tf.int32)], "engine")


def test_calls_are_checked_and_describe_themselves() -> None:
    path = compile_op(_weighted_loop(tf.Variable(1.0)), freeze_variables=True)
    call = embedded_runtime.embedded_runtime_call
    results, context = embedded_runtime.embedded_runtime_start_and_call(
        path, [], [tf.constant(ELEMENTS[1])], "engine"
    )
    np.testing.assert_allclose(results[0], ELEMENTS[1])
    assert context.name() == "engine"
    assert context.output_types() == [tf.float32, tf.float32]
    assert context.start_output() == []
    signature = context.signature()
    assert len(signature.inputs) == len(signature.outputs) == 0
    assert signature.streamed_inputs[0].shape.dimensions == (3,)
    assert [info.shape.dimensions for info in signature.streamed_outputs] == [(3,), ()]
    with pytest.raises(ValueError, match="call expects 1 inputs"):
        call([], context)
    with pytest.raises(ValueError, match="Mismatched input shape"):
        call([tf.zeros(4)], context)
    with pytest.raises(TypeError, match="Mismatched input dtype"):
        call([tf.zeros(3, tf.int32)], context)
    with pytest.raises(NotImplementedError, match="stopping"):
        embedded_runtime.embedded_runtime_stop(context)


def test_a_program_without_feeds_returns_its_results() -> None:
    path = compile_op(lambda x, y: x * y + 1, inputs=[tf.zeros(3), tf.zeros(3)])
    context = embedded_runtime.embedded_runtime_start(
        path, [tf.constant(ELEMENTS[1]), tf.constant(ELEMENTS[2])], "engine"
    )
    (result,) = embedded_runtime.embedded_runtime_call([], context)
    np.testing.assert_allclose(result, ELEMENTS[1] * ELEMENTS[2] + 1)


def test_pipelines_and_iterators_become_programs() -> None:
    configure(2)
    infeed, outfeed = IPUInfeedQueue(_data()), IPUOutfeedQueue()
    weight = tf.Variable(3.0)

    @tf.function
    def pipelined() -> None:
        pipeline(
            [lambda c, x: c + x * weight, lambda y: y**2],
            4,
            inputs=[10.0],
            infeed_queue=infeed,
            outfeed_queue=outfeed,
        )

    results = _called(compile_op(pipelined, freeze_variables=True), [])
    np.testing.assert_allclose(np.squeeze(results), (10 + 3 * ELEMENTS) ** 2)
    with IPUStrategy().scope():
        iterator = iter(_data())
    other = IPUOutfeedQueue()

    @tf.function
    def iterated() -> None:
        for _ in tf.range(5):
            other.enqueue(next(iterator) - weight)

    results = _called(compile_op(iterated, freeze_variables=True), [])
    np.testing.assert_allclose(np.squeeze(results), ELEMENTS - 3)


def test_programs_run_in_sessions_with_the_values_of_the_session(
    tmp_path: Path,
) -> None:
    with tf.Graph().as_default():
        infeed, outfeed = IPUInfeedQueue(_data()), IPUOutfeedQueue()

        def body(x: Any) -> Any:
            weight = v1.get_variable("weight", initializer=1.0, use_resource=True)
            return outfeed.enqueue(x * weight)

        path = compile_op(
            lambda: loops.repeat(4, body, [], infeed),
            output_path=str(tmp_path / "program.poplar_exec"),
            freeze_variables=True,
        )
        assert path.dtype == tf.string
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(v1.global_variables()[0].assign(7.0))
            written = session.run(path)
    with tf.Graph().as_default():
        context = embedded_runtime.embedded_runtime_start(written, [], "engine")
        x = v1.placeholder(tf.float32, [3])
        results = embedded_runtime.embedded_runtime_call([x], context)
        with v1.Session() as session:
            for element in ELEMENTS:
                (result,) = session.run(results, {x: element})
                np.testing.assert_allclose(result, 7 * element)


def test_what_cannot_be_an_application_is_refused(tmp_path: Path) -> None:
    infeed, outfeed = IPUInfeedQueue(_data()), IPUOutfeedQueue()
    counter = tf.Variable(0.0)

    @tf.function
    def counting(x: Any) -> None:
        outfeed.enqueue(x + counter.assign_add(1.0))

    with pytest.raises(NotImplementedError, match="changes variables"):
        compile_op(lambda: loops.repeat(2, counting, [], infeed))

    def carrying(total: Any, x: Any) -> Any:
        return total + x, IPUOutfeedQueue().enqueue(total)

    with pytest.raises(NotImplementedError, match="iteration to iteration"):
        compile_op(lambda: loops.repeat(2, carrying, [tf.zeros(3)], infeed))
    other = tmp_path / "other.poplar_exec"
    other.write_bytes(b"GCTF")
    with pytest.raises(ValueError, match="not an executable of the emulator"):
        embedded_runtime.embedded_runtime_start(str(other), [], "engine")
    with pytest.raises(FileNotFoundError, match=r"no\.poplar_exec"):
        embedded_runtime.embedded_runtime_start("no.poplar_exec", [], "engine")


def _served(directory: Path, x: np.ndarray) -> dict[str, np.ndarray]:
    """Load a SavedModel in a process without the emulator, and call it."""
    np.save(directory.parent / "x.npy", x)
    code = (
        "import sys, numpy as np, tensorflow as tf\n"
        "model = tf.saved_model.load(sys.argv[1])\n"
        "predict = model.signatures['serving_default']\n"
        "(name,) = predict.structured_input_signature[1]\n"
        "result = predict(**{name: tf.constant(np.load(sys.argv[2]))})\n"
        "assert 'ipu_runtime' not in sys.modules\n"
        "np.savez(sys.argv[3], **{k: v.numpy() for k, v in result.items()})\n"
    )
    files = [str(directory), *(str(directory.parent / n) for n in ("x.npy", "y.npz"))]
    subprocess.run(
        [sys.executable, "-c", code, *files], check=True, capture_output=True
    )
    return dict(np.load(directory.parent / "y.npz"))


def test_a_served_step_equals_calling_the_function(tmp_path: Path) -> None:
    weight = tf.Variable([[2.0], [3.0]])

    @tf.function(input_signature=[tf.TensorSpec((4, 2), tf.float32)])
    def step(x: Any) -> Any:
        return x @ weight, tf.reduce_sum(x)

    directory = tmp_path / "served"
    predict = serving.export_single_step(
        step, str(directory), 16, output_names=["product", "total"]
    )
    x = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    expected = x @ weight.numpy()
    np.testing.assert_allclose(predict(x)["product"], expected, rtol=1e-6)
    (asset,) = (directory / "assets").iterdir()
    assert asset.suffix == ".poplar_exec"
    context = embedded_runtime.embedded_runtime_start(str(asset), [], "engine")
    results = embedded_runtime.embedded_runtime_call([tf.constant(x)], context)
    np.testing.assert_allclose(results[0], expected, rtol=1e-6)
    served = _served(directory, x)
    np.testing.assert_allclose(served["product"], expected, rtol=1e-6)
    np.testing.assert_allclose(served["total"], x.sum(), rtol=1e-5)


def test_steps_of_the_host_surround_a_served_pipeline(tmp_path: Path) -> None:
    configure(2)
    weight = tf.Variable(4.0)
    directory = tmp_path / "served"
    predict = serving.export_pipeline(
        [lambda c, x: c + x, lambda y: y * weight],
        str(directory),
        iterations=4,
        inputs=[1.0],
        predict_step_signature=[tf.TensorSpec((3,), tf.float32)],
        input_dataset=tf.data.Dataset.from_tensors(np.zeros(3, np.int32)),
        preprocessing_step=lambda number: tf.cast(number, tf.float32),
        postprocessing_step=lambda y: -y,
        postprocessing_step_signature=[tf.TensorSpec((3,), tf.float32)],
    )
    numbers = np.array([1, 2, 3], np.int32)
    np.testing.assert_allclose(predict(numbers)[0], [-8, -12, -16])
    loaded = tf.saved_model.load(str(directory)).signatures["serving_default"]
    np.testing.assert_allclose(loaded(number=numbers)["output_0"], [-8, -12, -16])


def test_a_served_keras_model_is_a_program_too(tmp_path: Path) -> None:
    with IPUStrategy().scope():
        model = keras.Sequential(
            [keras.Input((4, 3)), keras.layers.LSTM(2), keras.layers.Dense(1)]
        )
    serving.export_keras(model, str(tmp_path / "served"), batch_size=2)
    (asset,) = (tmp_path / "served" / "assets").iterdir()
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    context = embedded_runtime.embedded_runtime_start(str(asset), [], "engine")
    (result,) = embedded_runtime.embedded_runtime_call([tf.constant(x)], context)
    np.testing.assert_allclose(result, model(x), rtol=1e-5)


def test_wrong_exports_are_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept", encoding="utf-8")
    specs = [tf.TensorSpec((3,), tf.float32)]
    data = tf.data.Dataset.from_tensors(np.zeros(3, np.float32))

    def export(step: Any = lambda x: x, **options: Any) -> Any:
        return serving.export_single_step(step, str(tmp_path), 2, **options)

    with pytest.raises(ValueError, match="not empty"):
        export(predict_step_signature=specs)
    with pytest.raises(ValueError, match="`predict_step_signature` must be given"):
        export()
    with pytest.raises(ValueError, match="Only one of `predict_step_signature`"):
        export(predict_step_signature=specs, input_dataset=data)
    with pytest.raises(TypeError, match=r"must be a tf.data.Dataset"):
        export(input_dataset=[1])
    with pytest.raises(TypeError, match=r"list or tuple of tf.TensorSpec"):
        export(predict_step_signature=[1])
    with pytest.raises(ValueError, match="is empty"):
        export(predict_step_signature=[])
    with pytest.raises(ValueError, match="takes 2 arguments from the feed"):
        export(lambda x, y: x, predict_step_signature=specs)
    with pytest.raises(TypeError, match="`output_names` must be a text or a list"):
        export(predict_step_signature=specs, output_names=5)
    assert (tmp_path / "kept").exists()
    with pytest.raises(ValueError, match="has 2 entries for 1 results"):
        export(
            predict_step_signature=specs,
            output_names=["a", "b"],
            purge_export_dir=True,
        )
    with pytest.raises(ValueError, match="`preprocessing_step` returns"):
        export(
            predict_step_signature=specs,
            preprocessing_step=lambda x: x,
            preprocessing_step_signature=[tf.TensorSpec((2,), tf.float32)],
            purge_export_dir=True,
        )
