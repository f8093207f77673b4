"""`ipu-workbench run`: train an experiment without the app."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ipu_runtime.plan.problem import Problem, Severity
from workbench.core.events import Event, RunEnded, RunStarted, RunStatus
from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.locations import runs_directory
from workbench.core.planning import plan_experiment
from workbench.core.run_context import RunControl
from workbench.core.runner import run_experiment
from workbench.core.validation import validate
from workbench.headless.diagnostics import UsageError, report_problems
from workbench.headless.exit_codes import ExitCode
from workbench.headless.experiment_argument import (
    add_experiment_argument,
    read_experiment,
)
from workbench.headless.interruption import stop_on_interrupt
from workbench.headless.native_log import NativeLog
from workbench.headless.run_argument import RUN_HELP, find_run
from workbench.headless.run_display import JsonDisplay, TextDisplay

_EXIT_CODES = {
    RunStatus.FINISHED: ExitCode.DONE,
    RunStatus.STOPPED: ExitCode.INTERRUPTED,
    RunStatus.FAILED: ExitCode.FAILED,
}


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "run",
        help="train an experiment",
        description="Trains an experiment and keeps a record of it. ctrl+c stops it "
        "and keeps the record, a second ctrl+c leaves at once.",
    )
    add_experiment_argument(parser, optional=True)
    parser.add_argument("--seed", metavar="N", type=int, help="same as experiment.seed")
    parser.add_argument("--json", action="store_true", help="one object per event")
    parser.add_argument("--quiet", action="store_true", help="print only what is wrong")
    parser.add_argument(
        "--resume",
        metavar="RUN",
        help=f"continue a run that was stopped or killed: {RUN_HELP}",
    )
    parser.add_argument(
        "--tensorboard",
        metavar="DIRECTORY",
        nargs="?",
        const="",
        help="also write event files; without a directory, into the run's record",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run what the arguments name."""
    if args.resume is not None:
        spec, preset, run_id = _resumed(args)
    else:
        spec, preset, run_id = *_fresh(args), None
    refusal = _check_device(spec, str(args.experiment or args.resume))
    if refusal is not None:
        return refusal
    control = RunControl()
    with NativeLog() as native_log, stop_on_interrupt(control):
        display = JsonDisplay() if args.json else TextDisplay(spec, quiet=args.quiet)
        sinks: list[Callable[[Event], None]] = [display.show]
        if args.tensorboard is not None:
            sinks.append(_TensorBoard(args.tensorboard).write)

        def emit(event: Event) -> None:
            if isinstance(event, RunStarted):
                native_log.lead_to(runs_directory() / event.run_id / "run.log")
            for sink in tuple(sinks):
                try:
                    sink(event)
                except BrokenPipeError:
                    # Nobody reads any more, so the run stops and keeps its record.
                    sinks.remove(sink)
                    control.stop.set()

        status = run_experiment(spec, control, emit, preset=preset, resume=run_id)
    return _EXIT_CODES[status]


def _fresh(args: argparse.Namespace) -> tuple[ExperimentSpec, str]:
    if args.experiment is None:
        hint = "see: ipu-workbench presets list"
        raise UsageError([Problem("PRESET|FILE", "is missing", hint)])
    if args.seed is not None:
        args.changes = [*args.changes, f"experiment.seed={args.seed}"]
    spec, loaded = read_experiment(args)
    return spec, loaded.preset.name


def _resumed(args: argparse.Namespace) -> tuple[ExperimentSpec, str, str]:
    stored = find_run(args.resume)
    where = f"run {stored.run_id}"
    if stored.status is RunStatus.FINISHED:
        raise UsageError([Problem(where, "is finished: there is nothing to resume")])
    if args.changes or args.seed is not None:
        text = "a resumed run keeps its experiment, so nothing can be changed"
        raise UsageError([Problem(where, text, "leave out --set and --seed")])
    if args.experiment not in (None, stored.preset):
        text = f"is a run of {stored.preset}, not of {args.experiment}"
        raise UsageError([Problem(where, text, "leave out the preset")])
    spec, problems = validate(stored.tables)
    if spec is None:
        raise UsageError(problems, where)
    return spec, stored.preset, stored.run_id


def _check_device(spec: ExperimentSpec, name: str) -> ExitCode | None:
    """Report what the emulated device would refuse, before anything is loaded."""
    if spec.execution.api == "cpu":
        return None
    problems = plan_experiment(spec).problems
    report_problems(problems, name)
    severities = {problem.severity for problem in problems}
    if Severity.ERROR in severities:
        return ExitCode.USAGE
    return ExitCode.NO_FIT if Severity.NO_FIT in severities else None


class _TensorBoard:
    """Opens the event files when the run has a directory."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._writer: Any = None

    def write(self, event: Event) -> None:
        """Add an event's numbers."""
        if isinstance(event, RunStarted):
            # Late, because TensorFlow takes seconds to load.
            from workbench.core.tensorboard_export import TensorBoardWriter

            chosen = self._directory or runs_directory() / event.run_id / "tensorboard"
            self._writer = TensorBoardWriter(Path(os.path.expanduser(chosen)))
        self._writer.write(event)
        if isinstance(event, RunEnded):
            self._writer.close()
