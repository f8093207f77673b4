"""Changed fields as calls to write into a script, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ipu_runtime.plan.config.config_enums import ENUM_OF_FIELD
from ipu_runtime.plan.placements import PLACEMENTS
from workbench.overlays.capture import Capture
from workbench.overlays.script_fields import SETTING_OF_FIELD
from workbench.overlays.script_lines import ScriptLine

_SCHEDULES = "ipu.pipelining_ops.PipelineSchedule"
_MODES = "ipu.pipelining_ops.RecomputationMode"
_KERAS = {
    "batch_size": ("model.fit", "batch_size"),
    "epochs": ("model.fit", "epochs"),
    "steps_per_epoch": ("model.fit", "steps_per_epoch"),
    "steps_per_execution": ("model.compile", "steps_per_execution"),
    "accumulation_reduction": (
        "model.set_gradient_accumulation_options",
        "gradient_accumulation_reduction_method",
    ),
    "metric_reduction": (
        "model.set_replication_options",
        "replicated_metric_reduction_method",
    ),
    "gradient_accumulation": (
        "model.set_gradient_accumulation_options",
        "gradient_accumulation_steps_per_replica",
    ),
    "schedule": ("model.set_pipelining_options", "pipeline_schedule"),
    "recomputation": ("model.set_pipelining_options", "recomputation_mode"),
    "device_mapping": ("model.set_pipelining_options", "device_mapping"),
    **{name: ("model.set_pipelining_options", name) for name in PLACEMENTS},
}
_ACCUMULATING = ("gradient_accumulation", "accumulation_reduction")
_FUNCTIONS = {
    "gradient_accumulation": "gradient_accumulation_count",
    "accumulation_reduction": "reduction_method",
    "schedule": "pipeline_schedule",
    "recomputation": "recomputation_mode",
    "device_mapping": "device_mapping",
    **{name: name for name in PLACEMENTS},
}
"""Arguments of a pipeline whose stages are functions."""


def patch_lines(
    capture: Capture, changes: Mapping[str, Any], tables: Mapping[str, Any]
) -> list[str]:
    """Return one line per call that the changes ask for.

    Args:
        capture: The script as it is today.
        changes: What the experiment has otherwise.
        tables: The whole experiment.
    """
    lines, calls = [], dict[str, list[str]]()
    pipelined = bool(tables.get("pipeline", {}).get("stages"))
    for path, value in changes.items():
        name = SETTING_OF_FIELD.get(path)
        if path.startswith("ipu."):
            lines.append(_configuration(capture, path.removeprefix("ipu."), value))
        elif name == "stages":
            lines += _stages(capture, value)
        elif name is None or (call := _call(capture, name, pipelined)) is None:
            lines.append(f"# {path} = {value!r}: change it where the script has it")
        else:
            function, argument = call
            calls.setdefault(function, []).append(f"{argument}={_code(name, value)}")
    for function, arguments in calls.items():
        text = f"{function}({', '.join(arguments)})"
        lines.append(_place(capture, function, text))
    return lines


def _call(capture: Capture, name: str, pipelined: bool) -> tuple[str, str] | None:
    """Return the function and the argument that take a setting."""
    for function in ("IPUPipelineEstimatorSpec", "pipelining_ops.pipeline"):
        if function in capture.lines and name in _FUNCTIONS:
            return function, _FUNCTIONS[name]
    if "IPURunConfig" in capture.lines:
        known = name == "steps_per_execution"
        return ("IPURunConfig", "iterations_per_loop") if known else None
    function, argument = _KERAS[name]
    if name in _ACCUMULATING and pipelined:
        function = "model.set_pipelining_options"
    return function, argument


def _code(name: str, value: Any) -> str:
    if name == "schedule":
        return f"{_SCHEDULES}.{value}"
    return f"{_MODES}.{value}" if name == "recomputation" else repr(value)


def _configuration(capture: Capture, path: str, value: Any) -> str:
    enum = ENUM_OF_FIELD.get(path)
    code = f"ipu.config.{enum.__name__}.{value}" if enum else repr(value)
    text = f"config.{path} = {code}"
    line = capture.lines.get(f"ipu.{path}")
    if line is not None:
        return _at(line, text)
    return _at(capture.lines.get("configure_ipu_system"), text, before=True)


def _stages(capture: Capture, stages: Sequence[int]) -> list[str]:
    program = capture.program
    assert program is not None
    assert program.request is not None
    if "keras" not in program.facts:
        layers = program.request.model.stage_layers
        pairs = zip(layers, stages, strict=False)
        parts = ", ".join(f"{layer.name}: {stage}" for layer, stage in pairs)
        place = capture.lines.get("IPUPipelineEstimatorSpec")
        return [_at(place, f"# move layers between computational_stages: {parts}")]
    tags = [line for what, line in capture.lines.items() if "PipelineStage(" in what]
    lines = [_at(line, "# take out this PipelineStage") for line in tags]
    line = capture.lines.get("model.set_pipeline_stage_assignment")
    known = line is not None and not tags
    place = line if known else capture.lines.get("model.fit")
    calls = [f"model.set_pipeline_stage_assignment({list(stages)})"]
    if program.facts["keras"] != "Sequential":
        calls = [
            "assignment = model.get_pipeline_stage_assignment()",
            f"for item, stage in zip(assignment, {list(stages)}):",
            "    item.pipeline_stage = stage",
            "model.set_pipeline_stage_assignment(assignment)",
        ]
    return [*lines, *(_at(place, text, before=not known) for text in calls)]


def _place(capture: Capture, function: str, text: str) -> str:
    """Return a call with the line where it is, or the one that it must come before."""
    line = capture.lines.get(function)
    if line is not None:
        return _at(line, text)
    return _at(capture.lines.get("model.fit"), text, before=True)


def _at(line: ScriptLine | None, text: str, *, before: bool = False) -> str:
    if line is None:
        return f"(nowhere yet): {text}"
    return f"{'before ' if before else ''}{line}: {text}"
