"""`ipu-workbench runs`: list them, show one, compare several, hand them on."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Any

from ipu_runtime.plan.problem import Problem
from workbench.core.compare import compare_runs, comparison_to_json, outcome_of
from workbench.core.locations import runs_directory
from workbench.core.run_export import run_to_json
from workbench.core.run_store import list_runs
from workbench.headless.diagnostics import UsageError, say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.output import print_json, print_table
from workbench.headless.run_argument import add_run_argument, find_run
from workbench.headless.runs_export import FORMATS, export_runs
from workbench.headless.runs_text import print_comparison, print_run

_SHOWN_BY_DEFAULT = 30


def add_parser(subparsers: Any) -> None:
    """Add the command and what it can do."""
    parser = subparsers.add_parser("runs", help="list, show, compare or export runs")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list runs, newest first")
    listing.add_argument("--group", metavar="NAME", help="only the runs of a sweep")
    listing.add_argument(
        "--limit",
        metavar="N",
        type=int,
        default=_SHOWN_BY_DEFAULT,
        help="most runs to list, 0 for all (default: %(default)s)",
    )
    listing.set_defaults(run=_list)
    showing = actions.add_parser("show", help="show what a run did")
    add_run_argument(showing)
    showing.set_defaults(run=_show)
    comparing = actions.add_parser("compare", help="put runs side by side")
    add_run_argument(comparing, several=True)
    comparing.set_defaults(run=_compare)
    for action in (listing, showing, comparing):
        action.add_argument("--json", action="store_true", help="one object per line")
    exporting = actions.add_parser("export", help="write runs for other programs")
    add_run_argument(exporting, several=True)
    exporting.add_argument("--format", choices=FORMATS, default=FORMATS[0])
    exporting.add_argument(
        "--output",
        metavar="FILE",
        help="where to; without it to standard output (tensorboard: a directory)",
    )
    exporting.set_defaults(run=_export)


def _list(args: argparse.Namespace) -> int:
    runs = list_runs(args.group)
    shown = runs[: args.limit] if args.limit > 0 else runs
    if args.json:
        for run in shown:
            print_json(run_to_json(run, with_events=False))
        return ExitCode.DONE
    rows = []
    for run in shown:
        known = outcome_of(run)
        epochs = f"{known.get('epochs', 0):.0f}"
        wanted = run.tables.get("train", {}).get("epochs")
        rows.append(
            (
                run.run_id,
                run.preset,
                run.status.value,
                f"{epochs}/{wanted}" if wanted else epochs,
                known.get("loss_last"),
                known.get("accuracy_last"),
                known.get("test_accuracy"),
                _local_time(run.created),
                run.group,
            )
        )
    if not rows:
        say(f"no runs in {runs_directory()}; begin one with: ipu-workbench run PRESET")
        return ExitCode.DONE
    print_table(
        (
            "run",
            "preset",
            "status",
            "epochs",
            "loss",
            "accuracy",
            "on test",
            "begun",
            "group",
        ),
        rows,
    )
    if len(shown) < len(runs):
        say(f"{len(runs) - len(shown)} older runs are not shown; --limit 0 shows all")
    return ExitCode.DONE


def _show(args: argparse.Namespace) -> int:
    run = find_run(args.run_id)
    if args.json:
        print_json(run_to_json(run))
    else:
        print_run(run)
    return ExitCode.DONE


def _compare(args: argparse.Namespace) -> int:
    runs = [find_run(name) for name in args.runs]
    if len({run.run_id for run in runs}) < 2:
        hint = "name two or more"
        raise UsageError([Problem("RUN", "a run cannot be compared to itself", hint)])
    comparison = compare_runs(runs)
    if args.json:
        print_json(comparison_to_json(comparison))
    else:
        print_comparison(comparison)
    return ExitCode.DONE


def _export(args: argparse.Namespace) -> int:
    export_runs([find_run(name) for name in args.runs], args.format, args.output)
    return ExitCode.DONE


def _local_time(text: str) -> str:
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return text
