"""`ipu-workbench sweep`: an experiment at every point of a grid."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, TextIO

from ipu_runtime.plan.config.field import nearest
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.quantities import duration
from workbench.cluster.team import team_on
from workbench.comparing.outcome import OUTCOMES
from workbench.experiment.experiment_loading import read_and_checked
from workbench.experiment.validation import understood
from workbench.headless.arguments import (
    add_experiment_argument,
    add_place_argument,
    chosen_place,
    read_experiment,
)
from workbench.headless.diagnostics import say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.interruption import stop_on_interrupt
from workbench.headless.native_output import NativeLog
from workbench.headless.output import print_document, print_json
from workbench.runs.run_context import NoMachines, RunControl
from workbench.services.refused import Refused
from workbench.store_json import UnknownRecord
from workbench.sweeps.halving import OBJECTIVES, Halving
from workbench.sweeps.sweep import run_sweep
from workbench.sweeps.sweep_grid import Axis, count_points, parse_grid
from workbench.sweeps.sweep_point import (
    PLAN_METRICS,
    PointResult,
    comparable,
    ranked,
)
from workbench.sweeps.sweep_record import SweepDefinition, SweepRecord
from workbench.views.sweep import sweep_document

_REASONS_SHOWN = 10


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "sweep",
        help="plan or train an experiment at every point of a grid",
        description="Every combination of the given values is planned (--plan-only) "
        "or trained. An interrupted sweep goes on with --resume.",
    )
    add_experiment_argument(parser, optional=True)
    parser.add_argument(
        "--grid",
        metavar="FIELD=VALUES",
        action="append",
        default=[],
        help="data.batch_size=16,32 or train.epochs=1..5 or stages=1,2,4 (layers are "
        "balanced, and IPUs selected, for each number of stages; one is no pipeline); "
        "may be repeated",
    )
    parser.add_argument(
        "--plan-only", action="store_true", help="only plan, which is quick"
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=int,
        help="processes at once; on a cluster as many as find room",
    )
    add_place_argument(parser)
    parser.add_argument(
        "--by",
        metavar="METRIC",
        help=f"rank by this; planned: {', '.join(PLAN_METRICS)}; "
        f"trained: {', '.join(OUTCOMES)}",
    )
    parser.add_argument(
        "--top", metavar="N", type=int, default=10, help="points in the table"
    )
    parser.add_argument(
        "--budget",
        metavar="EPOCHS",
        type=int,
        help="epochs of all points together: all are trained for a few, the better "
        "half of them for twice as many, and so on (successive halving)",
    )
    parser.add_argument(
        "--objective",
        choices=OBJECTIVES,
        help="what the better half has more, or less, of when an epoch ends; with "
        "--budget, default: accuracy",
    )
    parser.add_argument("--group", metavar="NAME", default="", help="name of the sweep")
    parser.add_argument("--resume", metavar="GROUP", help="go on with this sweep")
    parser.add_argument("--json", action="store_true", help="one object per line")
    parser.set_defaults(run=_sweep)


def _sweep(args: argparse.Namespace) -> int:
    if args.jobs is not None and args.jobs < 1:
        raise Refused(f"{args.jobs} processes", "at least 1", "--jobs")
    record = _continued(args) if args.resume else _begun(args)
    try:
        return _go_through(args, record)
    finally:
        record.close()


def _begun(args: argparse.Namespace) -> SweepRecord:
    if args.experiment is None:
        hint = "or continue a sweep with --resume GROUP"
        raise Refused("is missing", hint, "PRESET")
    axes, problems = parse_grid(args.grid)
    halving, halving_problems = _halving(args, axes)
    problems += (*_problems(args, trained=not args.plan_only), *halving_problems)
    if problems:
        raise Refused.for_problems(problems)
    _, loaded = read_experiment(args)
    definition = SweepDefinition(
        args.experiment, loaded.tables, axes, not args.plan_only, halving
    )
    return SweepRecord.create(definition, args.group)


def _halving(
    args: argparse.Namespace, axes: Sequence[Axis]
) -> tuple[Halving | None, list[Problem]]:
    if args.budget is None:
        hint = "say how many epochs: --budget 40"
        return None, [Problem("--objective", "has no budget", hint)] * bool(
            args.objective
        )
    halving = Halving(args.objective or "accuracy", args.budget)
    problems = halving.problems(count_points(axes))
    if args.plan_only:
        problems.append(Problem("--budget", "is for points that are trained"))
    if any(axis.path == "train.epochs" for axis in axes):
        hint = "leave it out of the grid"
        problems.append(Problem("--budget", "decides about train.epochs", hint))
    return halving, problems


def _continued(args: argparse.Namespace) -> SweepRecord:
    given = (args.experiment, args.grid, args.changes, args.group)
    if any(given) or args.budget is not None or args.objective:
        text = "takes the preset, the grid and the budget from the sweep"
        raise Refused(text, "leave the others out", "--resume")
    try:
        record = SweepRecord.reopen(args.resume)
    except UnknownRecord as error:
        raise Refused(str(error), where="--resume") from error
    definition = record.definition
    problems = _problems(args, trained=definition.trained)
    # Asked here, or every point that is left would be one that cannot run.
    problems += [
        item
        for item in read_and_checked(definition.tables, say, trust=args.trust)[1]
        if item.severity is Severity.ERROR
    ]
    if definition.halving is not None:
        problems += definition.halving.problems(count_points(definition.axes))
    if problems:
        record.close()
        raise Refused.for_problems(problems)
    return record


def _problems(args: argparse.Namespace, *, trained: bool) -> list[Problem]:
    """Return what does not suit a sweep that trains, or does not."""
    problems = []
    known = OUTCOMES if trained else PLAN_METRICS
    if args.by is not None and args.by not in known:
        guess = nearest(args.by, known)
        hint = f"did you mean {guess}? " if guess else ""
        hint += ", ".join(known)
        problems.append(Problem("--by", f"unknown metric {args.by}", hint))
    if not (trained or args.on.is_here):
        problems.append(Problem("--on", "is for points that are trained"))
    return problems


def _go_through(args: argparse.Namespace, record: SweepRecord) -> int:
    definition = record.definition
    results = record.results()
    total = count_points(definition.axes)
    metric = args.by or _usual_metric(definition)
    if args.json:
        print_json(
            {
                "event": "sweep_started",
                "group": record.group,
                "preset": definition.preset,
                "points": total,
                "done": len(results),
                "trained": definition.trained,
                "grid": [asdict(axis) for axis in definition.axes],
                "halving": asdict(definition.halving) if definition.halving else None,
            }
        )
    else:
        say(f"sweep {record.group}: {total:,} points, {len(results):,} of them done")
        if definition.halving is not None:
            say(_rungs_text(definition, definition.halving, total))
    began = time.monotonic()
    lack = ""
    try:
        for result in _new_results(args, record, total, len(results)):
            results.append(result)
            if args.json:
                print_json({"event": "point", **asdict(result)})
    except NoMachines as error:
        lack = str(error)
    seconds = time.monotonic() - began
    asked, metric = metric, comparable(results, metric)
    if metric != asked:
        say(f"batches differ in size: ranked by {metric}, not by {asked}")
    best = ranked(results, metric)
    if args.json:
        print_json(_ended(record, results, best, metric, seconds))
    else:
        file = str(record.directory / "points.jsonl")
        document = sweep_document(definition, results, best, metric, args.top, file)
        print_document(document, ascii_only=args.ascii)
        say(f"{len(results):,} points in {seconds:.1f} s")
    if lack:
        say(lack)
    if len(results) < total:
        say(f"go on with: ipu-workbench sweep --resume {record.group}")
        return ExitCode.FAILED if lack else ExitCode.INTERRUPTED
    if all(result.problem for result in results):
        return ExitCode.FAILED
    return ExitCode.DONE


def _usual_metric(definition: SweepDefinition) -> str:
    if not definition.trained:
        return PLAN_METRICS[0]
    halving = definition.halving
    return f"{halving.objective}_last" if halving else "loss_last"


def _new_results(
    args: argparse.Namespace, record: SweepRecord, total: int, done: int
) -> Iterator[PointResult]:
    """Do what is left, with a bar; what TensorFlow prints goes to the sweep's log."""
    control = RunControl()
    with NativeLog() as native_log, stop_on_interrupt(control):
        if record.definition.trained:
            native_log.lead_to(record.directory / "sweep.log")
        named = record.definition.named_values()
        with team_on(chosen_place(args), named, say) as team:
            bar = ProgressBar(total, done)
            for result in run_sweep(record, control, args.jobs, team):
                bar.advance()
                yield result
            bar.clear()


def _rungs_text(definition: SweepDefinition, halving: Halving, total: int) -> str:
    rungs = halving.rungs(total, understood(definition.tables).train.epochs)
    steps = ", ".join(f"{count:,} to epoch {epoch}" for count, epoch in rungs)
    return f"a budget of {halving.budget:,} epochs takes {steps}"


def _ended(
    record: SweepRecord,
    results: Sequence[PointResult],
    best: Sequence[PointResult],
    metric: str,
    seconds: float,
) -> dict[str, Any]:
    return {
        "event": "sweep_ended",
        "group": record.group,
        "done": len(results),
        "valid": sum(not result.problem for result in results),
        "invalid": sum(bool(result.problem) for result in results),
        "stopped_early": sum(bool(result.stopped_epoch) for result in results),
        "by": metric,
        "best": asdict(best[0]) if best else None,
        "seconds": seconds,
        "directory": str(record.directory),
    }


_BAR_WIDTH = 30
_REDRAW_S = 0.1


class ProgressBar:
    """Redraws itself in place; off a terminal it stays silent."""

    def __init__(self, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._total, self._done, self._at_start = total, done, done
        self._began = self._drawn = time.monotonic()
        self._shown = self._stream.isatty()

    def advance(self, count: int = 1) -> None:
        """Note that more is done; most calls draw nothing."""
        self._done += count
        now = time.monotonic()
        if self._shown and now - self._drawn >= _REDRAW_S:
            self._drawn = now
            self._stream.write(f"\r{self.line(now)}\x1b[K")
            self._stream.flush()

    def clear(self) -> None:
        """Make room for other output."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def line(self, now: float) -> str:
        """Return the bar: how much is done, how fast, and how long it still takes."""
        share = self._done / self._total if self._total else 1.0
        filled = int(share * _BAR_WIDTH)
        bar = "#" * filled + "-" * (_BAR_WIDTH - filled)
        rate = (self._done - self._at_start) / max(now - self._began, 1e-9)
        left = f", {duration((self._total - self._done) / rate)} left" if rate else ""
        speed = f"{rate:.0f}/s" if rate >= 1 else f"{duration(1 / rate)} each"
        speed = f"  {speed}" if rate else ""
        return f"[{bar}] {self._done:,}/{self._total:,}{speed}{left}"
