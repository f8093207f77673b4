"""`ipu-workbench sweep`: an experiment at every point of a grid."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ipu_runtime.plan.field import nearest
from ipu_runtime.plan.problem import Problem
from workbench.core.compare import OUTCOMES
from workbench.core.record_files import UnknownRecord
from workbench.core.run_context import RunControl
from workbench.core.sweep import ranked, run_sweep
from workbench.core.sweep_grid import count_points, parse_grid
from workbench.core.sweep_point import PLAN_METRICS, PointResult
from workbench.core.sweep_record import SweepDefinition, SweepRecord
from workbench.headless.diagnostics import UsageError, say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.experiment_argument import read_experiment
from workbench.headless.interruption import stop_on_interrupt
from workbench.headless.native_log import NativeLog
from workbench.headless.output import print_json, print_line, print_table
from workbench.headless.progress_bar import ProgressBar

_REASONS_SHOWN = 10


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "sweep",
        help="plan or train an experiment at every point of a grid",
        description="Every combination of the given values is planned (--plan-only) "
        "or trained. An interrupted sweep goes on with --resume.",
    )
    parser.add_argument(
        "experiment", metavar="PRESET|FILE", nargs="?", help="what to start from"
    )
    parser.add_argument(
        "--grid",
        metavar="FIELD=VALUES",
        action="append",
        default=[],
        help="data.batch_size=16,32 or train.epochs=1..5 or stages=2,4 (layers are "
        "balanced, and IPUs selected, for each number of stages); may be repeated",
    )
    parser.add_argument(
        "--set", dest="changes", metavar="FIELD=VALUE", action="append", default=[]
    )
    parser.add_argument(
        "--plan-only", action="store_true", help="only plan, which is quick"
    )
    parser.add_argument("--jobs", metavar="N", type=int, help="processes at once")
    parser.add_argument(
        "--by",
        metavar="METRIC",
        help=f"rank by this; planned: {', '.join(PLAN_METRICS)}; "
        f"trained: {', '.join(OUTCOMES)}",
    )
    parser.add_argument(
        "--top", metavar="N", type=int, default=10, help="points in the table"
    )
    parser.add_argument("--group", metavar="NAME", default="", help="name of the sweep")
    parser.add_argument("--resume", metavar="GROUP", help="go on with this sweep")
    parser.add_argument("--json", action="store_true", help="one object per line")
    parser.set_defaults(run=_sweep)


def _sweep(args: argparse.Namespace) -> int:
    if args.jobs is not None and args.jobs < 1:
        raise UsageError([Problem("--jobs", f"{args.jobs} processes", "at least 1")])
    record = _continued(args) if args.resume else _begun(args)
    try:
        return _go_through(args, record)
    finally:
        record.close()


def _begun(args: argparse.Namespace) -> SweepRecord:
    if args.experiment is None:
        hint = "or continue a sweep with --resume GROUP"
        raise UsageError([Problem("PRESET", "is missing", hint)])
    axes, problems = parse_grid(args.grid)
    metric_problem = _metric_problem(args.by, trained=not args.plan_only)
    if problems or metric_problem:
        raise UsageError([*problems, *metric_problem])
    _, loaded = read_experiment(args)
    definition = SweepDefinition(
        args.experiment, loaded.tables, axes, trained=not args.plan_only
    )
    return SweepRecord.create(definition, args.group)


def _continued(args: argparse.Namespace) -> SweepRecord:
    if args.experiment or args.grid or args.changes or args.group:
        text = "takes the preset and the grid from the sweep"
        raise UsageError([Problem("--resume", text, "leave the others out")])
    try:
        record = SweepRecord.reopen(args.resume)
    except UnknownRecord as error:
        raise UsageError([Problem("--resume", str(error))]) from error
    problem = _metric_problem(args.by, trained=record.definition.trained)
    if problem:
        record.close()
        raise UsageError(problem)
    return record


def _metric_problem(metric: str | None, *, trained: bool) -> list[Problem]:
    known = OUTCOMES if trained else PLAN_METRICS
    if metric is None or metric in known:
        return []
    guess = nearest(metric, known)
    hint = f"did you mean {guess}? " if guess else ""
    return [Problem("--by", f"unknown metric {metric}", f"{hint}{', '.join(known)}")]


def _go_through(args: argparse.Namespace, record: SweepRecord) -> int:
    definition = record.definition
    results = record.results()
    total = count_points(definition.axes)
    metric = args.by or ("loss_last" if definition.trained else PLAN_METRICS[0])
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
            }
        )
    else:
        say(f"sweep {record.group}: {total:,} points, {len(results):,} of them done")
    began = time.monotonic()
    for result in _new_results(args, record, total, len(results)):
        results.append(result)
        if args.json:
            print_json({"event": "point", **asdict(result)})
    seconds = time.monotonic() - began
    best = ranked(results, metric)
    if args.json:
        print_json(_ended(record, results, best, metric, seconds))
    else:
        _print_result(args, record, results, best, metric)
        say(f"{len(results):,} points in {seconds:.1f} s")
    if len(results) < total:
        say(f"go on with: ipu-workbench sweep --resume {record.group}")
        return ExitCode.INTERRUPTED
    return ExitCode.DONE


def _new_results(
    args: argparse.Namespace, record: SweepRecord, total: int, done: int
) -> Iterator[PointResult]:
    """Do what is left, with a bar; what TensorFlow prints goes to the sweep's log."""
    control = RunControl()
    with NativeLog() as native_log, stop_on_interrupt(control):
        if record.definition.trained:
            native_log.lead_to(record.directory / "sweep.log")
        bar = ProgressBar(total, done)
        for result in run_sweep(record, control, args.jobs):
            bar.advance()
            yield result
        bar.clear()


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
        "by": metric,
        "best": asdict(best[0]) if best else None,
        "seconds": seconds,
        "directory": str(record.directory),
    }


def _print_result(
    args: argparse.Namespace,
    record: SweepRecord,
    results: Sequence[PointResult],
    best: Sequence[PointResult],
    metric: str,
) -> None:
    trained = record.definition.trained
    paths = [axis.path for axis in record.definition.axes]
    if best:
        names = _columns(
            best[: args.top], metric, OUTCOMES if trained else PLAN_METRICS
        )
        rows = [
            (
                *(result.values[path] for path in paths),
                *(result.metrics.get(name) for name in names),
                *([result.run_id] if trained else []),
            )
            for result in best[: args.top]
        ]
        note = "" if trained else ", modelled"
        print_line(f"best {len(rows)} of {len(best):,} valid points by {metric}{note}")
        print_table((*paths, *names, *(["run"] if trained else [])), rows)
    else:
        print_line("no point is valid")
    wrong = [result for result in results if result.problem]
    if wrong:
        print_line()
        print_line(f"{len(wrong):,} points are not valid:")
    for result in wrong[:_REASONS_SHOWN]:
        values = " ".join(f"{path}={value}" for path, value in result.values.items())
        print_line(f"  {values}: {result.problem}")
    if len(wrong) > _REASONS_SHOWN:
        more = len(wrong) - _REASONS_SHOWN
        print_line(f"  and {more:,} more, in {record.directory / 'points.jsonl'}")


def _columns(
    best: Sequence[PointResult], metric: str, known: Sequence[str]
) -> list[str]:
    """Return the metrics to show: the chosen one, then those that differ."""
    others = [
        name
        for name in known
        if name != metric and len({result.metrics.get(name) for result in best}) > 1
    ]
    return [metric, *others]
