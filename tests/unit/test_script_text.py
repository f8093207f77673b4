"""Exported scripts as text: formatted, clean, and with what the tutorial's have."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.overrides import apply_overrides
from workbench.core.preset_store import list_presets, load_preset
from workbench.core.script_export import ScriptError, export_script
from workbench.core.script_export.python_text import call, literal
from workbench.core.validation import validate

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

    assert _ruff(tmp_path, "check") == ""
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
    assert modules <= {
        "argparse",
        "random",
        "numpy",
        "tensorflow",
        "tensorflow.python",
    }
    assert "from tensorflow.python import ipu\n" in text
    # The SDK's Python is 3.8.
    ast.parse(text, feature_version=(3, 8))


def test_the_pipelined_script_has_the_tutorials_flags_and_stages() -> None:
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
