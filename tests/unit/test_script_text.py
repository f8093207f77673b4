"""Exported scripts as text: formatted, clean, and with the flags of the documents."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu_runtime.plan.layers.shapes import resolve_model
from ipu_runtime.plan.model.model_spec import LayerSpec
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.overrides import apply_overrides
from workbench.experiment.preset_store import list_presets, load_preset
from workbench.experiment.validation import validate
from workbench.models.model_source import parse_source
from workbench.models.source_files import content_key
from workbench.models.source_model import (
    SourceModel,
    TensorFacts,
    save_source_model,
)
from workbench.script_export import ScriptError, export_script
from workbench.script_export.python_text import call, literal, printed

NAMES = [preset.name for preset in list_presets() if preset.packaged]


def _spec(name: str, *changes: str) -> ExperimentSpec:
    tables, problems = apply_overrides(load_preset(name).tables, changes)
    spec, more = validate(tables)
    assert spec is not None, (problems, more)
    return spec


def _ruff(directory: Path, *arguments: str) -> str:
    config = Path(__file__).parents[2] / "pyproject.toml"
    command = [sys.executable, "-m", "ruff", *arguments, "--config", str(config)]
    done = subprocess.run(
        [*command, "--no-cache", str(directory)], capture_output=True, text=True
    )
    return done.stdout if done.returncode else ""


@pytest.mark.slow
def test_every_preset_becomes_a_clean_script(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(export_script(_spec(name)))

    # The wall around private modules is ours: `tensorflow.python.ipu` is the real API.
    assert _ruff(tmp_path, "check", "--ignore", "TID251") == ""
    assert _ruff(tmp_path, "format", "--diff") == ""


@pytest.mark.parametrize("name", NAMES)
def test_scripts_use_the_real_api_and_nothing_of_ours(name: str) -> None:
    text = export_script(_spec(name))

    modules = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(str(node.module))
    known = {"argparse", "random", "numpy", "tensorflow", "tensorflow.python"}
    if _spec(name).execution.instances > 1:
        strategy = "tensorflow.python.ipu.distributed.popdist_strategy"
        known |= {"popdist", "popdist.tensorflow", strategy}
    assert modules <= known
    assert "from tensorflow.python import ipu\n" in text
    # The SDK's Python is 3.8.
    ast.parse(text, feature_version=(3, 8))


def test_the_pipelined_script_has_the_documents_flags_and_stages() -> None:
    text = export_script(_spec("mnist-ipu-pipelined"))

    for flag in (
        "--use-ipu",
        "--pipelining",
        "--gradient-accumulation-count",
        "--batch-size",
        "--epochs",
    ):
        assert f'"{flag}"' in text
    assert text.count("with ipu.keras.PipelineStage(") == 2
    assert "pipeline_schedule=ipu.ops.pipelining_ops.PipelineSchedule.Grouped" in text


def test_a_sequential_script_assigns_its_stages_in_one_call() -> None:
    text = export_script(_spec("mnist-ipu-pipelined"), sequential=True)

    assert "keras.Sequential(" in text
    assert "model.set_pipeline_stage_assignment([0, 0, 0, 1, 1, 1, 1])" in text
    assert "PipelineStage(" not in text.replace("PipelineStageAssignment(", "")


def test_configuration_fields_are_set_as_the_api_types_them() -> None:
    spec = _spec(
        "mnist-ipu",
        "ipu.device_connection.type=ON_DEMAND",
        "ipu.allow_recompute=true",
        "ipu.convolutions.poplar_options={partialsType = 'half'}",
    )
    text = export_script(spec)
    on_demand = "ipu.config.DeviceConnectionType.ON_DEMAND"
    assert f"config.device_connection.type = {on_demand}\n" in text
    assert "config.allow_recompute = True\n" in text
    assert 'config.convolutions.poplar_options = {"partialsType": "half"}\n' in text


def test_titles_cannot_break_out_of_the_docstring() -> None:
    spec = _spec("mnist-ipu", 'experiment.title=""" + exit() + """\\')
    tree = ast.parse(export_script(spec))
    assert isinstance(tree.body[0], ast.Expr)
    assert "exit()" in str(ast.get_docstring(tree))


def test_padding_fills_a_batch_of_which_less_than_half_is_there() -> None:
    script = ast.parse(export_script(_spec("mnist-padded")))
    functions = [node for node in script.body if isinstance(node, ast.FunctionDef)]
    scope: dict[str, Any] = {"np": np}
    for function in functions:
        exec(ast.unparse(function), scope)

    x, y, weight = scope["pad"]((np.ones((3, 2)), np.ones(3)), 8)

    assert x.shape == (8, 2)
    assert y.tolist() == weight.tolist() == [1] * 3 + [0] * 5


def _hinted(values: dict[str, int], times: int = 2) -> dict[str, int]:
    """Return values, multiplied."""
    result: dict[str, int] = {}
    # A remark that a learner wants.
    for name, value in values.items():
        result[name] = value * times
    return result


def test_a_function_is_printed_with_its_remarks_and_without_hints() -> None:
    text = printed(_hinted, "multiplied")
    assert text.splitlines() == [
        "def multiplied(values, times=2):",
        '    """Return values, multiplied."""',
        "    result = {}",
        "    # A remark that a learner wants.",
        "    for name, value in values.items():",
        "        result[name] = value * times",
        "    return result",
    ]


def test_an_estimators_script_has_the_loss_of_logits() -> None:
    for name in ("cifar10-ipu-estimator", "cifar10-ipu-pipeline-estimator"):
        text = export_script(
            _spec(
                name,
                "data.dataset=synthetic",
                "train.loss=binary_crossentropy_from_logits",
            )
        )
        assert "keras.losses.binary_crossentropy(labels, x, from_logits=True)" in text
        assert "tf.cast(x > 0.0, tf.float32)" in text
        assert '.astype("float32")' in text


def test_only_chains_can_be_sequential() -> None:
    with pytest.raises(ScriptError, match="only a chain"):
        export_script(_spec("resnet50-pod16"), sequential=True)


def test_long_calls_are_broken_as_a_formatter_breaks_them() -> None:
    arguments = [f"argument_number_{i}={i}" for i in range(5)]
    assert call("f", ["1"], before="x = ", after="(x)") == ["x = f(1)(x)"]
    lines = call("function", arguments, indent=4)
    assert lines[0] == "    function("
    assert lines[-1] == "    )"
    assert all(len(line) <= 88 for line in lines)


def test_literals_are_read_back_as_they_were() -> None:
    for value in [
        "a'b\"c\\\n\x7fé",
        1.5,
        -3,
        True,
        None,
        (1,),
        (1, (2, "x")),
        {"a": 1},
    ]:
        assert ast.literal_eval(literal(value)) == value


@pytest.mark.parametrize(("dtype", "scaled"), [(np.uint8, True), (np.float32, False)])
def test_only_bytes_are_scaled(tmp_path: Path, dtype: type, scaled: bool) -> None:
    path = tmp_path / "own.npz"
    samples, labels = np.zeros((64, 28, 28), dtype), np.arange(64) % 10
    np.savez(path, x_train=samples, y_train=labels, x_test=samples, y_test=labels)
    text = export_script(_spec("mnist-ipu", f"data.dataset={path}"))
    assert ("/ 255" in text) is scaled


def _source_spec(source: str, named: bool, *changes: str) -> ExperimentSpec:
    """Return an experiment around a model that has been read before."""
    layers = [
        LayerSpec("first", "Input", {"shape": [8]}),
        LayerSpec("second", "Input", {"shape": [4]}),
        LayerSpec("both", "Concatenate", {}, ("first", "second")),
        LayerSpec("kind", "Dense", {"units": 3, "activation": "softmax"}, ("both",)),
        LayerSpec("place", "Dense", {"units": 5, "activation": "softmax"}, ("both",)),
    ]
    inputs = TensorFacts("first", (8,)), TensorFacts("second", (4,), "int32")
    outputs = (
        TensorFacts("kind", (3,), activation="softmax"),
        TensorFacts("place", (5,), activation="softmax"),
    )
    model, _ = resolve_model(layers)
    read = SourceModel(model, (), inputs, outputs, named, named)
    save_source_model(content_key(parse_source(source)), read)
    loaded = load_experiment(source, changes)
    assert loaded.spec is not None, loaded.problems
    return loaded.spec


@pytest.mark.slow
def test_every_kind_of_source_becomes_a_clean_script(tmp_path: Path) -> None:
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    pipelined = (
        "pipeline.stages=0,1,1",
        "ipu.auto_select_ipus=2",
        "execution.gradient_accumulation=4",
    )
    for number, (name, named, changes) in enumerate(
        [
            ("net.keras", False, pipelined),
            ("net.keras", True, ("train.evaluate=false",)),
            ("net.h5", False, ("train.steps_per_epoch=4",)),
            ("net.json", True, ("train.loss=mse", "data.labels=categorical")),
            ("net.h5", True, ("train.losses=mse,binary_crossentropy_from_logits",)),
            ("net.py:build", False, pipelined),
        ]
    ):
        (tmp_path / name.partition(":")[0]).write_text(str(number))
        spec = _source_spec(str(tmp_path / name), named, *changes)
        (scripts / f"script_{number}.py").write_text(export_script(spec))

    assert _ruff(scripts, "check", "--ignore", "TID251,E501") == ""
    for script in scripts.iterdir():
        ast.parse(script.read_text(), feature_version=(3, 8))


def test_a_source_has_its_stages_by_name(tmp_path: Path) -> None:
    path = tmp_path / "net.keras"
    path.write_text("a model")
    changes = ("pipeline.stages=0,1,0", "ipu.auto_select_ipus=2")
    more = ("execution.gradient_accumulation=4",)
    text = export_script(_source_spec(str(path), False, *changes, *more))
    assert f"keras.models.load_model({literal(str(path))}" in text.replace(
        "\n        ", ""
    )
    stages = text.partition("STAGE_OF_LAYER = ")[2].partition("}")[0] + "}"
    assert ast.literal_eval(stages) == {"both": 0, "kind": 1, "place": 0}


@pytest.mark.parametrize(
    ("sequential", "changes", "words"),
    [(True, (), "--sequential"), (False, ("data.preparation=pad",), "pad")],
)
def test_what_a_source_cannot_be_is_said(
    tmp_path: Path, sequential: bool, changes: tuple[str, ...], words: str
) -> None:
    path = tmp_path / "net.keras"
    path.write_text("a model")
    spec = _source_spec(str(path), False, *changes)
    with pytest.raises(ScriptError, match=words):
        export_script(spec, sequential=sequential)


def test_an_input_of_bytes_is_fed_pixels_as_they_are() -> None:
    text = export_script(_spec("mnist-ipu", "model.layers[0].dtype=uint8"))
    assert '.astype("uint8")\n' in text
    assert "/ 255" not in text


def test_where_things_live_is_told_to_the_pipeline() -> None:
    text = export_script(
        _spec(
            "mnist-ipu-pipelined",
            "pipeline.offload_weight_update_variables=true",
            "pipeline.replicated_optimizer_state_sharding=true",
        )
    )
    assert "offload_weight_update_variables=True" in text
    assert "replicated_optimizer_state_sharding=True" in text
    assert "offload_activations" not in text


def test_shared_weights_stay_on_the_tiles_only_if_the_script_says_so() -> None:
    shared = "pipeline.replicated_weight_sharding=true"
    text = export_script(_spec("mnist-ipu-pipelined", shared))
    assert "offload_weights=False" in text
    text = export_script(
        _spec("mnist-ipu-pipelined", shared, "pipeline.offload_weights=true")
    )
    assert "offload_weights=True" in text
