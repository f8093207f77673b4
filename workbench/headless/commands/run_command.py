"""`ipu-workbench run`: train an experiment without the app."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ipu_runtime.plan.plan import Plan
from workbench.cluster.team import team_on
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.tables import spec_to_tables
from workbench.headless.arguments import (
    RUN_HELP,
    add_experiment_argument,
    add_place_argument,
    chosen_place,
    read_experiment,
)
from workbench.headless.commands.plan_command import plan_exit_code
from workbench.headless.diagnostics import report_problems, say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.interruption import stop_on_interrupt
from workbench.headless.native_output import NativeLog
from workbench.headless.run_display import JsonDisplay, TextDisplay
from workbench.locations import runs_directory
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.events import Event, RunEnded, RunStarted, RunStatus
from workbench.runs.run_context import RunControl
from workbench.runs.runner import run_experiment
from workbench.services.recorded_runs import experiment_to_resume, find
from workbench.services.refused import Refused
from workbench.store_json import explained

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
    add_place_argument(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run what the arguments name."""
    if args.resume is not None:
        spec, preset, run_id = _resumed(args)
    else:
        spec, preset, run_id = *_fresh(args), None
    plan = plan_experiment(spec)
    refusal = _check_device(spec, plan, str(args.experiment or args.resume))
    if refusal is not None:
        return refusal
    control = RunControl()
    with (
        NativeLog() as native_log,
        stop_on_interrupt(control),
        team_on(chosen_place(args), [spec_to_tables(spec)], say) as team,
    ):
        display = JsonDisplay() if args.json else TextDisplay(spec, quiet=args.quiet)
        sinks: list[Callable[[Event], None]] = [display.show]
        if args.tensorboard is not None:
            sinks.append(_TensorBoard(_event_directory(args.tensorboard)).write)

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

        status = run_experiment(
            spec,
            control,
            emit,
            preset=preset,
            resume=run_id,
            plan=plan,
            start=None if team is None else team.starter(control),
        )
    return _EXIT_CODES[status]


def _fresh(args: argparse.Namespace) -> tuple[ExperimentSpec, str]:
    if args.experiment is None:
        hint = "see: ipu-workbench presets list"
        raise Refused("is missing", hint, "PRESET|FILE")
    if args.seed is not None:
        args.changes = [*args.changes, f"experiment.seed={args.seed}"]
    spec, loaded = read_experiment(args)
    return spec, loaded.preset.name


def _resumed(args: argparse.Namespace) -> tuple[ExperimentSpec, str, str]:
    stored = find(args.resume)
    where = f"run {stored.run_id}"
    if args.changes or args.seed is not None:
        text = "a resumed run keeps its experiment, so nothing can be changed"
        raise Refused(text, "leave out --set and --seed", where)
    if args.experiment not in (None, stored.preset):
        text = f"is a run of {stored.preset}, not of {args.experiment}"
        raise Refused(text, "leave out the preset", where)
    spec = experiment_to_resume(stored, trusted=args.trust, tell=say)
    return spec, stored.preset, stored.run_id


def _check_device(spec: ExperimentSpec, plan: Plan, name: str) -> ExitCode | None:
    """Report what the emulated device would refuse, before anything is loaded."""
    report_problems(plan.problems, name)
    code = plan_exit_code(plan)
    return code if code is not ExitCode.DONE else None


def _event_directory(chosen: str) -> Path | None:
    """Make the directory of the event files before there is a run; None: its own."""
    if not chosen:
        return None
    directory = Path(os.path.expanduser(chosen))
    with explained(directory):
        directory.mkdir(parents=True, exist_ok=True)
    return directory


class _TensorBoard:
    """Opens the event files when the run has a directory."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._writer: Any = None

    def write(self, event: Event) -> None:
        """Add an event's numbers."""
        if isinstance(event, RunStarted):
            # Late, because TensorFlow takes seconds to load.
            from workbench.export.tensorboard_export import TensorBoardWriter

            own = runs_directory() / event.run_id / "tensorboard"
            self._writer = TensorBoardWriter(self._directory or own)
        if self._writer is None:
            return
        self._writer.write(event)
        if isinstance(event, RunEnded):
            self._writer.close()
