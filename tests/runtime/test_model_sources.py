"""Models of the user's own: read once, planned, trained, exported, resumed."""

from __future__ import annotations

import io
import os
import runpy
import shutil
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest

from workbench.data.dataset import load_prepared
from workbench.experiment.experiment_loading import (
    load_experiment,
    recorded_experiment,
)
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.resolved_model import resolved
from workbench.headless.main import main
from workbench.models.model_source import SourceError, parse_source
from workbench.models.source_building import outlined_model, trainable_model
from workbench.models.source_files import checked_config
from workbench.models.weight_bounds import check_archive
from workbench.planning.balancing import balance_experiment
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.events import EpochEnded, Event, RunStatus
from workbench.runs.model_builder import build_keras_model
from workbench.runs.run_context import RunControl
from workbench.runs.run_store import open_run
from workbench.runs.runner import run_experiment
from workbench.script_export import export_script

pytestmark = pytest.mark.slow

ONE_STEP = ("data.train_samples=8", "train.evaluate=false")
PIPELINED = (
    "pipeline.stages=0,0,0,1,1",
    "ipu.auto_select_ipus=2",
    "execution.gradient_accumulation=4",
    "data.train_samples=32",
    "data.test_samples=32",
)
FUNCTIONS = """
import keras


def build(input_shape=(8,), classes=3):
    entry = keras.Input(input_shape)
    hidden = keras.layers.Dense(16, activation="relu")(entry)
    return keras.Model(entry, keras.layers.Dense(classes, activation="softmax")(hidden))


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(4, activation="relu")
        self.out = keras.layers.Dense(2, activation="softmax")

    def call(self, x):
        return self.out(self.hidden(x))


def subclass():
    return Net()


class Code(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(3)
        self.outer = keras.layers.Dense(6, activation="sigmoid")

    def call(self, x):
        code = self.inner(x)
        self.add_loss(keras.ops.mean(keras.ops.square(code)))
        return self.outer(code)


def coder():
    return Code()


class Picky(keras.Model):
    def call(self, x):
        raise TypeError("not these samples")


def picky():
    return Picky()


def fails():
    raise KeyError("the weights")


def nothing():
    return None
"""


@pytest.fixture
def two_inputs(tmp_path: Path) -> Path:
    """A saved model with two inputs and two outputs."""
    first, second = keras.Input((8,), name="first"), keras.Input((4,), name="second")
    both = keras.layers.Add(name="both")(
        [
            keras.layers.Dense(6, activation="relu", name="left")(first),
            keras.layers.Dense(6, activation="relu", name="right")(second),
        ]
    )
    model = keras.Model(
        [first, second],
        [
            keras.layers.Dense(3, activation="softmax", name="kind")(both),
            keras.layers.Dense(5, activation="softmax", name="place")(both),
        ],
    )
    path = tmp_path / "two.keras"
    model.save(path)
    return path


@pytest.fixture
def functions(tmp_path: Path) -> str:
    path = tmp_path / "net.py"
    path.write_text(FUNCTIONS)
    return str(path)


def _spec(source: str | Path, *changes: str, trust: bool = False) -> ExperimentSpec:
    loaded = load_experiment(str(source), changes, trust=trust)
    assert loaded.spec is not None, loaded.problems
    return loaded.spec


def _losses(spec: ExperimentSpec) -> list[float]:
    events: list[Event] = []
    status = run_experiment(spec, RunControl(), events.append)
    assert status is RunStatus.FINISHED, events[-1]
    return [event.loss for event in events if isinstance(event, EpochEnded)]


def _keras_loss(spec: ExperimentSpec, x: Any, y: Any) -> float:
    """Return the loss of plain Keras on the samples of the first step."""
    model = trainable_model(spec.model.model_source, 0, trust=False)
    outputs = model(x)
    return sum(
        float(np.mean(keras.losses.sparse_categorical_crossentropy(labels, output)))
        for labels, output in zip(y, outputs, strict=True)
    )


def test_a_saved_model_starts_with_its_weights(two_inputs: Path) -> None:
    spec = _spec(two_inputs, *ONE_STEP)
    random = np.random.default_rng([0, 0])
    x = [random.random((8, 8), np.float32), random.random((8, 4), np.float32)]
    y = [random.integers(0, 3, 8, np.int32), random.integers(0, 5, 8, np.int32)]
    # One step of one batch: its loss is that of the saved weights.
    assert _losses(spec) == [pytest.approx(_keras_loss(spec, x, y), rel=1e-5)]


def test_the_plan_of_a_saved_model_has_its_layers(two_inputs: Path) -> None:
    plan = plan_experiment(_spec(two_inputs))
    saved = keras.models.load_model(two_inputs)
    assert {layer.name for layer in plan.layers} == {
        layer.name
        for layer in saved.layers
        if not isinstance(layer, keras.layers.InputLayer)
    }
    assert sum(layer.parameters for layer in plan.request.model.layers) == (
        saved.count_params()
    )


def test_a_pipeline_has_the_losses_of_its_script(
    two_inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = _spec(two_inputs, *PIPELINED)
    script = tmp_path / "script.py"
    script.write_text(export_script(spec))
    monkeypatch.setattr(sys, "argv", [str(script)])
    found = runpy.run_path(str(script))["main"]()
    assert found == pytest.approx(_losses(spec), rel=1e-5)


def test_stages_are_set_by_layer_name(two_inputs: Path) -> None:
    from ipu_runtime.ipu_strategy import IPUStrategy
    from ipu_runtime.keras.pipeline_stage import PipelineStage

    spec = _spec(two_inputs, *PIPELINED)
    with IPUStrategy().scope():
        model = build_keras_model(spec, PipelineStage)
        assigned = {
            item.layer.name: item.pipeline_stage
            for item in model.get_pipeline_stage_assignment()
        }
    assert assigned == {"left": 0, "right": 0, "both": 0, "kind": 1, "place": 1}


def test_an_application_is_read_once(home: Path) -> None:
    arguments = ["plan", "keras:MobileNetV2", "--set", "model.input_shape=32,32,3"]
    code = (
        "import sys\n"
        "from workbench.headless.main import main\n"
        f"code = main({arguments!r}, {{}}, None)\n"
        "print('keras' in sys.modules, 'tensorflow' in sys.modules, file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        for _ in range(2)
    ]
    assert outputs[0].stdout == outputs[1].stdout
    assert "reading keras:MobileNetV2 with TensorFlow" in outputs[0].stderr
    assert outputs[0].stderr.splitlines()[-1] == "True True"
    assert outputs[1].stderr.splitlines() == ["False False"]


def test_a_function_makes_the_model_that_is_asked_for(functions: str) -> None:
    changes = ("model.input_shape=5", "model.classes=7", *ONE_STEP)
    spec = _spec(f"{functions}:build", *changes)
    assert spec.train.loss == "sparse_categorical_crossentropy"
    plan = plan_experiment(spec)
    assert plan.request.model.parameters == 5 * 16 + 16 + 16 * 7 + 7
    assert len(_losses(spec)) == 1


def test_a_function_makes_layers_of_the_type_that_is_asked_for(
    functions: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = _spec(f"{functions}:build", "model.dtype=float16", *ONE_STEP)
    plan = plan_experiment(spec)
    assert plan.request.model.dtype == "float16"
    assert {str(w.dtype) for w in build_keras_model(spec).weights} == {"float16"}
    assert keras.config.dtype_policy().name == "float32"
    script = tmp_path / "script.py"
    script.write_text(export_script(spec))
    monkeypatch.setattr(sys, "argv", [str(script)])
    try:
        found = runpy.run_path(str(script))["main"]()
    finally:
        keras.config.set_dtype_policy("float32")
    # Values of half precision have three digits.
    assert found == pytest.approx(_losses(spec), rel=1e-3)


def test_a_subclass_is_one_block(functions: str) -> None:
    spec = _spec(f"{functions}:subclass", "model.input_shape=6", *ONE_STEP)
    assert len(_losses(spec)) == 1
    cut = ("model.input_shape=6", "pipeline.stages=0,1", "ipu.auto_select_ipus=2")
    refused = load_experiment(f"{functions}:subclass", cut)
    assert refused.spec is None
    assert "one block without stages" in str(refused.problems[0])
    balanced = balance_experiment(spec, 2)
    assert "which is one block" in balanced.problem


def test_a_subclass_that_adds_to_its_loss_is_one_layer(functions: str) -> None:
    spec = _spec(f"{functions}:coder", "model.input_shape=6", *ONE_STEP)
    assert spec.train.loss == "binary_crossentropy"
    (layer,) = plan_experiment(spec).layers
    assert layer.parameters == 6 * 3 + 3 + 3 * 6 + 6
    data = load_prepared(spec).train
    model = trainable_model(spec.model.model_source, 0, trust=True)
    model.compile(loss="binary_crossentropy")
    wanted = model.evaluate(data.x, data.y, verbose=0)
    assert _losses(spec) == [pytest.approx(wanted, rel=1e-5)]


def test_a_subclass_that_cannot_be_called_is_one_line(functions: str) -> None:
    loaded = load_experiment(f"{functions}:picky", ["model.input_shape=6"])
    (problem,) = loaded.problems
    assert "cannot be called on samples of (6,)" in str(problem)
    assert "not these samples" in str(problem)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("subclass", "say the shape of a sample with model.input_shape"),
        ("fails", "cannot be read: KeyError: 'the weights'"),
        ("nothing", "returns a NoneType, not a Keras model"),
        ("absent", "has no function absent"),
    ],
)
def test_a_function_that_makes_no_model_is_named(
    functions: str, function: str, words: str
) -> None:
    loaded = load_experiment(f"{functions}:{function}")
    assert loaded.spec is None
    (problem,) = loaded.problems
    assert problem.where == "model.source"
    assert words in str(problem)


def test_import_names_its_own_option(
    functions: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", f"{functions}:subclass"], {}, _no_app) == 2
    assert "say the shape of a sample with --input-shape" in capsys.readouterr().err


def test_an_imported_experiment_runs(
    functions: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset = str(tmp_path / "mine.toml")
    arguments = [f"{functions}:build", "--output", preset, "--batch-size", "4"]
    assert main(["import", *arguments], {}, _no_app) == 0
    assert "reading" in capsys.readouterr().err
    once = ["--set", "data.train_samples=8", "--set", "train.evaluate=false"]
    # Who has named it has trusted it, as it was then.
    assert main(["plan", preset, *once], {}, _no_app) == 0
    with Path(functions).open("a") as code:
        code.write("# Somebody has changed it.\n")
    assert main(["run", preset, *once], {}, _no_app) == 2
    assert "--trust" in capsys.readouterr().err
    assert main(["run", preset, "--trust", *once], {}, _no_app) == 0
    assert main(["plan", preset, *once], {}, _no_app) == 0


def _no_app(*, theme: str | None, ascii_only: bool) -> int:
    raise AssertionError("a command opens no app")


def test_a_changed_source_is_not_resumed(functions: str) -> None:
    spec = _spec(f"{functions}:build", *ONE_STEP)
    events: list[Event] = []
    run_experiment(spec, RunControl(), events.append)
    tables = open_run("latest").tables
    told: list[str] = []
    assert recorded_experiment(tables, told.append)[0] == spec
    Path(functions).write_text("raise SystemExit('it ran')")
    again, (problem,) = recorded_experiment(tables, told.append)
    assert again is None
    assert "is not what it was" in problem.problem
    assert told == []


def test_huge_weights_are_refused_before_they_are_made(tmp_path: Path) -> None:
    small = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
    path = tmp_path / "huge.json"
    path.write_text(small.to_json().replace('"units": 3', '"units": 1000000000000'))
    loaded = load_experiment(str(path))
    assert loaded.spec is None
    assert "9,000,000,000,000 weights" in str(loaded.problems[0])


def _saved(folder: Path, ending: str) -> Path:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3, name="dense")])
    model.compile("adam", "mse")
    path = folder / f"saved{ending}"
    model.save(path)
    return path


def _pack(path: Path, parts: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def _parts(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zeros(file: Path, name: str, **array: Any) -> None:
    """Put zeros in the place of an array of an HDF5 file."""
    with h5py.File(file, "r+") as content:
        del content[name]
        content.create_dataset(name, dtype="float32", **array)


def _names(file: Any) -> list[str]:
    names: list[str] = []
    file["model_weights"].visit(names.append)
    return [f"model_weights/{name}" for name in names]


_PACKED = {"shape": (1 << 33,), "chunks": (1 << 20,), "compression": "gzip"}


@pytest.mark.parametrize(
    ("ending", "array"),
    [
        (".keras", {"data": np.zeros(1 << 23, np.float32)}),
        (".keras", _PACKED),
        (".h5", _PACKED),
    ],
    ids=["packed by the archive", "packed inside of it", "HDF5"],
)
def test_weights_that_unpack_to_more_than_the_model_needs_are_refused(
    ending: str, array: dict[str, Any], tmp_path: Path
) -> None:
    path = _saved(tmp_path, ending)
    assert load_experiment(str(path)).spec is not None
    if ending == ".keras":
        parts, weights = _parts(path), tmp_path / "weights.h5"
        weights.write_bytes(parts["model.weights.h5"])
        _zeros(weights, "layers/dense/vars/0", **array)
        _pack(path, {**parts, "model.weights.h5": weights.read_bytes()})
    else:
        with h5py.File(path) as file:
            (kernel,) = (name for name in _names(file) if name.endswith("/kernel"))
        _zeros(path, kernel, **array)
    assert path.stat().st_size < 1 << 20
    loaded = load_experiment(str(path))
    assert loaded.spec is None
    assert "unpacks to" in str(loaded.problems[0])
    with pytest.raises(SourceError, match="unpacks to"):
        trainable_model(parse_source(str(path)), 1, trust=False)


def _tail(parts: dict[str, bytes], name: str, packing: int) -> bytes:
    """Return an archive in which a part goes on behind the end that its entry says."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, held in parts.items():
            tail = bytes(_TAIL) if part == name else b""
            archive.writestr(zipfile.ZipInfo(part), held + tail, packing)
    packed, entry = bytearray(content.getvalue()), 0
    while packed[entry + 46 : entry + 46 + len(name)] != name.encode():
        entry = packed.index(b"PK\x01\x02", entry + 1)
    packed[entry + 16 : entry + 20] = zlib.crc32(parts[name]).to_bytes(4, "little")
    packed[entry + 24 : entry + 28] = len(parts[name]).to_bytes(4, "little")
    return bytes(packed)


_TAIL = 1 << 26


def _checked(path: Path) -> None:
    """Look at a model file as is done before Keras may load it."""
    checked_config(path, trust=False)
    check_archive(path, 1000)


@pytest.mark.parametrize("packing", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
@pytest.mark.parametrize("name", ["config.json", "model.weights.h5"])
def test_what_unpacks_to_more_than_it_says_is_refused_before_it_does(
    name: str, packing: int, tmp_path: Path
) -> None:
    path = _saved(tmp_path, ".keras")
    path.write_bytes(_tail(_parts(path), name, packing))
    tracemalloc.start()
    with pytest.raises(SourceError):
        _checked(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < _TAIL // 4


@pytest.mark.parametrize("ending", [".keras", ".h5"])
@pytest.mark.parametrize("place", ["link", "storage", "virtual", "packed"])
def test_weights_in_other_files_or_packed_are_refused(
    place: str, ending: str, tmp_path: Path
) -> None:
    """A link may lead to a pipe, and a chunk may unpack to more than its array."""
    path, weights = _saved(tmp_path, ending), tmp_path / "weights.h5"
    parts = _parts(path) if ending == ".keras" else {}
    weights.write_bytes(parts.get("model.weights.h5") or path.read_bytes())
    os.mkfifo(tmp_path / "other")
    with h5py.File(weights, "r+") as file:
        if place == "link":
            file["x"] = h5py.ExternalLink(str(tmp_path / "other"), "/x")
        elif place == "storage":
            file.create_dataset("x", (8,), "f4", external=[("/etc/passwd", 0, 32)])
        elif place == "virtual":
            layout = h5py.VirtualLayout((8,), "f4")
            layout[:] = h5py.VirtualSource(str(tmp_path / "other"), "x", (8,))
            file.create_virtual_dataset("x", layout)
        else:
            file.create_dataset("x", data=np.zeros(8), compression="gzip")
    if parts:
        _pack(path, {**parts, "model.weights.h5": weights.read_bytes()})
    else:
        path.write_bytes(weights.read_bytes())
    with pytest.raises(SourceError, match=r"x is (packed|in another file)"):
        outlined_model(parse_source(str(path)), trust=False)


def test_a_packed_model_with_its_optimizer_is_read(tmp_path: Path) -> None:
    path = _saved(tmp_path, ".keras")
    expected = keras.models.load_model(path).get_weights()
    _pack(path, _parts(path))
    read = trainable_model(parse_source(str(path)), 1, trust=False).get_weights()
    for got, wanted in zip(read, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def _without(content: bytes, end: str) -> bytes:
    """Return weights without the first variable whose name ends so."""
    file = io.BytesIO(content)
    with h5py.File(file, "r+") as weights:
        names: list[str] = []
        weights.visit(names.append)
        del weights[next(name for name in names if name.endswith(end))]
    return file.getvalue()


@pytest.mark.parametrize("command", ["plan", "import"])
@pytest.mark.parametrize("damage", ["no weights", "a bias less", "of another model"])
def test_weights_that_cannot_be_loaded_are_refused_before_training(
    command: str, damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, units in (("whole", 16), ("other", 5)):
        layers = [keras.Input((8,)), keras.layers.Dense(units), keras.layers.Dense(3)]
        keras.Sequential(layers).save(tmp_path / f"{name}.keras")
    with zipfile.ZipFile(tmp_path / "other.keras") as archive:
        others = archive.read("model.weights.h5")
    broken = tmp_path / "broken.keras"
    with (
        zipfile.ZipFile(tmp_path / "whole.keras") as whole,
        zipfile.ZipFile(broken, "w") as archive,
    ):
        for item in whole.infolist():
            content = whole.read(item)
            if item.filename.endswith(".h5"):
                if damage == "no weights":
                    continue
                less = damage == "a bias less"
                content = _without(content, "vars/1") if less else others
            archive.writestr(item, content)
    assert main([command, str(tmp_path / "whole.keras")], {}, _no_app) == 0
    capsys.readouterr()
    assert main([command, str(broken)], {}, _no_app) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert "broken.keras cannot be read" in lines[-1]


def test_a_lambda_runs_only_when_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "ran"
    monkeypatch.setenv("MARK", str(mark))
    entry = keras.Input((4,))
    # Keras keeps the code of a lambda in the file.
    layer = keras.layers.Lambda(
        lambda x: (open(__import__("os").environ["MARK"], "a").close(), x * 2)[1]
    )
    model = keras.Model(entry, keras.layers.Dense(2)(layer(entry)))
    path = tmp_path / "code.keras"
    model.save(path)
    mark.unlink(missing_ok=True)
    loaded = load_experiment(str(path))
    assert loaded.spec is None
    assert "holds a Lambda, which is code" in str(loaded.problems[0])
    assert not mark.exists()
    load_experiment(str(path), trust=True)
    assert mark.exists()
    # It is trusted from then on, and another file of the same content is not.
    assert load_experiment(str(path)).spec is not None
    mark.unlink()
    other = Path(shutil.copy(path, tmp_path / "other.keras"))
    assert load_experiment(str(other)).spec is None
    assert not mark.exists()


def _with_own_class(folder: Path, name: str) -> Path:
    """Save a model with a class that only a file beside the model has."""
    folder.mkdir()
    code = folder / "layers_of_mine.py"
    code.write_text(
        f"import keras\n\n\nclass {name}(keras.layers.Layer):\n"
        "    def call(self, x):\n        return x + x\n"
    )
    # Under its name, but not imported.
    layer = runpy.run_path(str(code), run_name="layers_of_mine")[name]()
    entry = keras.Input((4,))
    keras.Model(entry, layer(entry)).save(folder / "own.keras")
    return folder / "own.keras"


def test_a_class_of_ones_own_beside_the_file_is_found_when_trusted(
    tmp_path: Path,
) -> None:
    path = _with_own_class(tmp_path / "first", "Doubled")
    (problem,) = load_experiment(str(path)).problems
    assert "holds layers_of_mine.Doubled, which is code" in problem.problem
    assert [layer.kind for layer in _spec(path, trust=True).model.layers] == [
        "Input",
        "Doubled",
    ]
    assert str(path.parent) not in sys.path
    # Another file's module may have the same name.
    other = _with_own_class(tmp_path / "second", "Twofold")
    assert _spec(other, trust=True).model.layers[1].kind == "Twofold"


def test_an_open_input_is_closed_by_the_shape(tmp_path: Path) -> None:
    entry = keras.Input((None, None, 3))
    hidden = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(4, 3)(entry))
    path = tmp_path / "open.keras"
    keras.Model(entry, keras.layers.Dense(2, activation="softmax")(hidden)).save(path)
    (problem,) = load_experiment(str(path)).problems
    assert "leaves its input open: None, None, 3" in problem.problem
    spec = _spec(path, "model.input_shape=6,5,3")
    model, _ = resolved(spec.model)
    assert model is not None
    assert [layer.output_shape for layer in model.layers] == [
        (6, 5, 3),
        (4, 3, 4),
        (4,),
        (2,),
    ]


def test_nested_and_repeated_layers_are_pipelined(tmp_path: Path) -> None:
    inner = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(4, name="a"), keras.layers.Dense(8)],
        name="block",
    )
    again = keras.layers.Dense(8, name="again")
    entry = keras.Input((8,))
    end = keras.layers.Dense(2, activation="softmax", name="end")
    path = tmp_path / "nested.keras"
    keras.Model(entry, end(again(again(inner(entry))))).save(path)
    plain = _spec(path, "data.train_samples=32", "train.evaluate=false")
    names = [layer.name for layer in plain.model.layers][1:]
    assert names == ["block/a", "block/dense", "again", "again_call1", "end"]
    cut = ("pipeline.stages=0,1,1,1,1", "train.evaluate=false")
    staged = _spec(path, *PIPELINED, *cut)
    accumulated = replace(
        plain, execution=replace(plain.execution, gradient_accumulation=4)
    )
    assert _losses(staged) == pytest.approx(_losses(accumulated), rel=1e-5)


def test_a_frozen_model_inside_another_is_pipelined(tmp_path: Path) -> None:
    normal = keras.layers.BatchNormalization(name="normal")
    first = [keras.Input((6,)), keras.layers.Dense(4, name="a"), normal]
    base = keras.Sequential(first, name="base")
    base.trainable = False
    entry = keras.Input((6,))
    end = keras.layers.Dense(2, activation="softmax", name="end")
    path = tmp_path / "frozen.keras"
    keras.Model(entry, end(base(entry, training=False))).save(path)
    staged = _spec(path, *PIPELINED, "pipeline.stages=0,1,1", "train.evaluate=false")
    names = [layer.name for layer in staged.model.layers][1:]
    assert names == ["base/a", "base/normal", "end"]
    pipeline = replace(staged.pipeline, stages=())
    plain = replace(staged, pipeline=pipeline, ipu={})
    assert _losses(staged) == pytest.approx(_losses(plain), rel=1e-5)


def test_an_application_with_open_images_gets_the_usual_ones() -> None:
    source = parse_source("keras:MobileNetV3Small")
    model = outlined_model(source, trust=False)
    assert tuple(model.inputs[0].shape) == (None, 224, 224, 3)
