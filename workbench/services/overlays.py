"""What is laid over a script from outside: an experiment's fields, changes, stages."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipu_runtime.plan.problem import Severity
from workbench.data.sample_counts import count
from workbench.experiment.experiment_fields import EXPERIMENT_FIELDS
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.field_differences import flatten
from workbench.experiment.overrides import apply_overrides, set_value
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate
from workbench.models.captured_model import CapturedModel, read_capture
from workbench.models.model_source import CAPTURE_ENDING
from workbench.overlays.overlay import Overlay
from workbench.overlays.script_fields import check_changes, script_changes
from workbench.overlays.script_lines import code_of
from workbench.planning.balancing import balanced_experiment
from workbench.scripts.script_command import ScriptCommand
from workbench.scripts.script_process import ChildCommand
from workbench.services.refused import Refused

SCHEDULES = next(f for f in EXPERIMENT_FIELDS if f.path == "pipeline.schedule").choices
_BALANCE = "balance:"
_FOLLOWING = ("execution.system", "data.preparation")
"""What stages ask of an experiment and a script's device has by itself."""
_NO_FIT = 3
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class OverlayRequest:
    """What the options of `exec` ask for."""

    script: str
    arguments: tuple[str, ...] = ()
    file: str | None = None
    """Experiment whose changed fields are laid over the script."""
    changes: Sequence[str] = ()
    """As `a.b=c`."""
    stages: str | None = None
    """Stage of every layer, or `balance:N`."""
    schedule: str | None = None


@dataclass(frozen=True)
class _Given:
    """What the experiment of the request says."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    captured: CapturedModel | None = None
    """What the experiment was captured from."""


def overlay(request: OverlayRequest, tell: Tell) -> Overlay | None:
    """Return what is laid over a script; None if there is nothing.

    It is refused as a whole before the script runs. Balancing captures the script
    first, in a process of its own.
    """
    given = _from_file(request.file) if request.file else _Given()
    changes = {**given.changes, **_asked(request)}
    balance = (request.stages or "").startswith(_BALANCE)
    if not changes and not balance:
        return None
    _refuse_wrong(changes)
    if balance:
        changes |= _balanced(request, changes, tell)
        _refuse_wrong(changes)
    tables = given.captured.tables if given.captured else {}
    inference = tables.get("train", {}).get("test_only") is True
    return Overlay(changes, code_of(request.script), tell, inference)


def _from_file(path: str) -> _Given:
    tables = load_preset(path).tables
    source = str(tables.get("model", {}).get("source", ""))
    if not source.endswith(CAPTURE_ENDING):
        return _Given(script_changes(tables, None))
    captured = read_capture(Path(source))
    return _Given(script_changes(tables, captured.tables), captured)


def _asked(request: OverlayRequest) -> dict[str, Any]:
    tables, problems = apply_overrides({}, list(request.changes))
    if problems:
        raise Refused.for_problems(problems)
    changes = flatten(tables)
    if request.schedule:
        changes["pipeline.schedule"] = request.schedule
    if request.stages and not request.stages.startswith(_BALANCE):
        try:
            stages = [int(item) for item in request.stages.strip("[]").split(",")]
        except ValueError:
            hint = "for example 0,0,1,1 or balance:4"
            text = f'"{request.stages}" is no list of stages'
            raise Refused(text, hint, "--stages") from None
        changes["pipeline.stages"] = stages
    return changes


def _refuse_wrong(changes: Mapping[str, Any]) -> None:
    if problems := check_changes(changes):
        raise Refused.for_problems(problems)


def _balanced(
    request: OverlayRequest, changes: Mapping[str, Any], tell: Tell
) -> dict[str, Any]:
    """Return the changes that the best stages of a script's model ask for."""
    number = (request.stages or "").removeprefix(_BALANCE)
    if not number.isdecimal():
        text, hint = f'"{number}" is no number of stages', "for example balance:4"
        raise Refused(text, hint, "--stages")
    spec = _captured_with(request, changes, tell)
    balanced = balanced_experiment(spec, int(number))
    if balanced.result.problem:
        raise _in_script(request, Refused(balanced.result.problem, where="--stages"))
    if not balanced.result.feasible:
        refused = _in_script(request, Refused(f"no {number} stages fit the device"))
        refused.code = _NO_FIT
        raise refused
    for text in balanced.training:
        tell(f"{request.script} trains otherwise: {text}")
    asked, _ = apply_overrides({}, balanced.changes)
    found = {k: v for k, v in flatten(asked).items() if k not in _FOLLOWING}
    if "execution.api" in found:
        text = "an IPUEstimator has no pipeline"
        hint = "use an IPUPipelineEstimator in the script"
        raise _in_script(request, Refused(text, hint, "--stages"))
    batches = count(balanced.spec).train.batches
    if batches != count(spec).train.batches:
        found["train.steps_per_epoch"] = batches
    return found


def _in_script(request: OverlayRequest, refused: Refused) -> Refused:
    refused.file = request.script
    return refused


def _captured_with(
    request: OverlayRequest, changes: Mapping[str, Any], tell: Tell
) -> ExperimentSpec:
    """Capture a script in a process of its own, and return it with changes."""
    command = ScriptCommand(request.script, request.arguments)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "script.toml")
        tell(f"capturing {request.script} first, to balance its layers")
        with ChildCommand(command.capture_words(file)) as child:
            code, said = child.result()
        if code:
            *rows, reason = said.splitlines() or [f"exit code {code}"]
            for row in rows:
                tell(row)
            refused = Refused(reason)
            refused.code = code
            raise refused
        tables: dict[str, Any] = dict(load_experiment(file).tables)
        for path, value in changes.items():
            tables = set_value(tables, path, value)
        spec, problems = validate(tables)
    if spec is None:
        errors = [item for item in problems if item.severity is Severity.ERROR]
        raise Refused.for_problems(errors, request.script)
    return spec
