"""The options of `exec` that change a script's settings from outside."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipu_runtime.plan.problem import Problem, Severity
from workbench.data.sample_counts import count
from workbench.experiment.experiment_fields import EXPERIMENT_FIELDS
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.field_differences import flatten
from workbench.experiment.overrides import apply_overrides, set_value
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate
from workbench.headless.diagnostics import UsageError, say
from workbench.headless.exit_codes import ExitCode
from workbench.models.captured_model import CapturedModel, read_capture
from workbench.models.model_source import CAPTURE_ENDING
from workbench.overlays.overlay import Overlay
from workbench.overlays.script_fields import changes_of, check_changes
from workbench.overlays.script_lines import code_of
from workbench.planning.balancing import balanced_experiment

_BALANCE = "balance:"
_SCHEDULES = next(f for f in EXPERIMENT_FIELDS if f.path == "pipeline.schedule").choices
_FOLLOWING = ("execution.system", "data.preparation")
"""What stages ask of an experiment and a script's device has by itself."""


class CaptureFailedError(Exception):
    """The script could not be captured; it has said why. Carries the exit code."""


def add_overlay_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--with",
        dest="overlay",
        metavar="FILE",
        help="experiment whose changed fields are laid over the script",
    )
    parser.add_argument(
        "--set",
        dest="changes",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help="change a field, for example --set ipu.io_tiles.num_io_tiles=32",
    )
    parser.add_argument(
        "--stages",
        metavar="LIST|balance:N",
        help="stage of every layer, for example 0,0,1,1, or the N best stages",
    )
    parser.add_argument(
        "--schedule", choices=_SCHEDULES, help="same as pipeline.schedule"
    )


def overlay_options(args: argparse.Namespace) -> list[str]:
    """Return the options as they were typed, for another process."""
    given = {"--with": args.overlay, "--stages": args.stages}
    given |= {"--schedule": args.schedule}
    typed = [word for option in given.items() if option[1] for word in option]
    return typed + [word for item in args.changes for word in ("--set", item)]


@dataclass(frozen=True)
class _Given:
    """What the options say."""

    changes: Mapping[str, Any] = field(default_factory=dict)
    captured: CapturedModel | None = None
    """What the experiment was captured from."""


def overlay_of(args: argparse.Namespace) -> Overlay | None:
    """Return what the options lay over the script; None if there is nothing.

    The options are refused as a whole before the script runs.
    """
    given = _from_file(args.overlay) if args.overlay else _Given()
    changes = {**given.changes, **_from_command(args)}
    balance = (args.stages or "").startswith(_BALANCE)
    if not changes and not balance:
        return None
    _refuse_wrong(changes)
    if balance:
        changes |= _balanced(args, changes)
        _refuse_wrong(changes)
    tables = given.captured.tables if given.captured else {}
    inference = tables.get("train", {}).get("test_only") is True
    return Overlay(changes, code_of(args.script), say, inference)


def _from_file(path: str) -> _Given:
    tables = load_preset(path).tables
    source = str(tables.get("model", {}).get("source", ""))
    if not source.endswith(CAPTURE_ENDING):
        return _Given(changes_of(tables, None))
    captured = read_capture(Path(source))
    return _Given(changes_of(tables, captured.tables), captured)


def _from_command(args: argparse.Namespace) -> dict[str, Any]:
    tables, problems = apply_overrides({}, args.changes)
    if problems:
        raise UsageError(problems)
    changes = flatten(tables)
    if args.schedule:
        changes["pipeline.schedule"] = args.schedule
    if args.stages and not args.stages.startswith(_BALANCE):
        try:
            stages = [int(item) for item in args.stages.strip("[]").split(",")]
        except ValueError:
            hint = "for example 0,0,1,1 or balance:4"
            text = f'"{args.stages}" is no list of stages'
            raise UsageError([Problem("--stages", text, hint)]) from None
        changes["pipeline.stages"] = stages
    return changes


def _refuse_wrong(changes: Mapping[str, Any]) -> None:
    problems = check_changes(changes)
    if problems:
        raise UsageError(problems)


def _balanced(args: argparse.Namespace, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that the best stages of a script's model ask for."""
    number = args.stages.removeprefix(_BALANCE)
    if not number.isdecimal():
        text, hint = f'"{number}" is no number of stages', "for example balance:4"
        raise UsageError([Problem("--stages", text, hint)])
    spec = _captured_with(args, changes)
    balanced = balanced_experiment(spec, int(number))
    if balanced.result.problem:
        raise UsageError([Problem("--stages", balanced.result.problem)], args.script)
    if not balanced.result.feasible:
        say(f"{args.script}: no {number} stages fit the device")
        raise CaptureFailedError(ExitCode.NO_FIT)
    for text in balanced.training:
        say(f"{args.script} trains otherwise: {text}")
    asked, _ = apply_overrides({}, balanced.changes)
    found = {k: v for k, v in flatten(asked).items() if k not in _FOLLOWING}
    if "execution.api" in found:
        text = "an IPUEstimator has no pipeline"
        hint = "use an IPUPipelineEstimator in the script"
        raise UsageError([Problem("--stages", text, hint)], args.script)
    batches = count(balanced.spec).train.batches
    if batches != count(spec).train.batches:
        found["train.steps_per_epoch"] = batches
    return found


def _captured_with(
    args: argparse.Namespace, changes: Mapping[str, Any]
) -> ExperimentSpec:
    """Capture a script in a process of its own, and return it with changes."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "script.toml")
        say(f"capturing {args.script} first, to balance its layers")
        command = [sys.executable, "-m", "workbench", "capture", "--output", file]
        command += [args.script, "--", *args.arguments]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode:
            say(finished.stderr.rstrip())
            raise CaptureFailedError(finished.returncode)
        tables: dict[str, Any] = dict(load_experiment(file).tables)
        for path, value in changes.items():
            tables = set_value(tables, path, value)
        spec, problems = validate(tables)
    if spec is None:
        errors = [item for item in problems if item.severity is Severity.ERROR]
        raise UsageError(errors, args.script)
    return spec
