"""`ipu-workbench runs`: list them, show one, compare several, hand them on."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ipu_runtime.plan.problem import Problem
from workbench.core.comparing.compare import (
    compare_runs,
    comparison_to_json,
    outcome_of,
)
from workbench.core.export.run_export import run_to_json, runs_to_csv
from workbench.core.locations import runs_directory
from workbench.core.runs.event_json import to_line
from workbench.core.runs.run_notes import notes_text, read_notes
from workbench.core.runs.run_store import StoredRun, list_runs
from workbench.headless.commands.runs_keeping import add_actions
from workbench.headless.diagnostics import UsageError, say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.native_output import NativeLog
from workbench.headless.output import (
    print_json,
    print_line,
    print_table,
    print_text,
    write_text,
)
from workbench.headless.run_argument import add_run_argument, find_run
from workbench.headless.runs_text import print_comparison, print_run
from workbench.headless.script_text import print_script

_SHOWN_BY_DEFAULT = 30
_FORMATS = ("csv", "json", "tensorboard")


def add_parser(subparsers: Any) -> None:
    """Add the command and what it can do."""
    parser = subparsers.add_parser(
        "runs",
        help="list, show, compare, export, note, tag or delete runs; alone, list",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    parser.set_defaults(
        run=_list, group=None, tag=None, limit=_SHOWN_BY_DEFAULT, json=False
    )
    listing = actions.add_parser("list", help="list runs, newest first")
    listing.add_argument("--group", metavar="NAME", help="only the runs of a sweep")
    listing.add_argument(
        "--limit",
        metavar="N",
        type=int,
        default=_SHOWN_BY_DEFAULT,
        help="most runs to list, 0 for all (default: %(default)s)",
    )
    listing.add_argument("--tag", metavar="TAG", help="only runs with this tag")
    listing.set_defaults(run=_list)
    showing = actions.add_parser("show", help="show what a run did")
    add_run_argument(showing)
    showing.set_defaults(run=_show)
    comparing = actions.add_parser("compare", help="put runs side by side")
    add_run_argument(comparing, several=True)
    comparing.add_argument(
        "--explain",
        action="store_true",
        help="also go from the first run to the second one changed field at a time, "
        "with the modelled cost of each",
    )
    comparing.set_defaults(run=_compare)
    for action in (listing, showing, comparing):
        action.add_argument("--json", action="store_true", help="one object per line")
    exporting = actions.add_parser("export", help="write runs for other programs")
    add_run_argument(exporting, several=True)
    exporting.add_argument("--format", choices=_FORMATS, default=_FORMATS[0])
    exporting.add_argument(
        "--output",
        metavar="FILE",
        help="where to; without it to standard output (tensorboard: a directory)",
    )
    exporting.set_defaults(run=_export)
    add_actions(actions)


def _list(args: argparse.Namespace) -> int:
    runs = list_runs(args.group)
    if args.tag is not None:
        runs = [run for run in runs if args.tag in read_notes(run.directory).tags]
    shown = runs[: args.limit] if args.limit > 0 else runs
    if args.json:
        for run in shown:
            print_json(run_to_json(run, with_events=False))
        return ExitCode.DONE
    rows = []
    for run in shown:
        known = outcome_of(run)
        epochs = f"{known.get('epochs', 0):.0f}"
        # A script may train more than once.
        wanted = None if run.script else run.tables.get("train", {}).get("epochs")
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
                notes_text(read_notes(run.directory)),
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
            "notes",
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
    elif run.script:
        print_script(run)
    else:
        print_run(run)
    return ExitCode.DONE


def _compare(args: argparse.Namespace) -> int:
    runs = [find_run(name) for name in args.runs]
    if len({run.run_id for run in runs}) < 2:
        hint = "name two or more"
        raise UsageError([Problem("RUN", "a run cannot be compared to itself", hint)])
    if args.explain and len(runs) != 2:
        text = f"goes from one run to another, not between {len(runs)}"
        raise UsageError([Problem("--explain", text, "name two")])
    comparison = compare_runs(runs)
    if args.json:
        print_json(comparison_to_json(comparison))
    else:
        print_comparison(comparison)
    if args.explain:
        _explain(args, *runs)
    return ExitCode.DONE


def _explain(args: argparse.Namespace, first: StoredRun, second: StoredRun) -> None:
    # The planner is only needed here.
    from workbench.core.comparing.explaining import explain, explanation_to_json
    from workbench.headless.explanation_text import print_explanation

    explanation = explain(first, second)
    if args.json:
        print_json(explanation_to_json(first, second, explanation))
    else:
        print_line()
        print_explanation(first, second, explanation)


def _export(args: argparse.Namespace) -> int:
    runs = [find_run(name) for name in args.runs]
    if args.format == "tensorboard":
        _export_event_files(runs, args.output)
        return ExitCode.DONE
    if args.format == "csv":
        text = runs_to_csv(runs)
    else:
        text = "".join(to_line(run_to_json(run)) for run in runs)
    if args.output is None:
        print_text(text)
    else:
        write_text(Path(args.output), text)
    return ExitCode.DONE


def _export_event_files(runs: Sequence[StoredRun], output: str | None) -> None:
    if output is None:
        hint = "name a directory"
        raise UsageError([Problem("--output", "is missing for tensorboard", hint)])
    with NativeLog() as native_log:
        native_log.lead_to(Path(os.devnull))
        # It loads TensorFlow, which takes seconds.
        from workbench.core.export.tensorboard_export import write_event_files

        for run in runs:
            write_event_files(run.events(), Path(output) / run.run_id)
    say(f"{len(runs)} written; look at them with: tensorboard --logdir {output}")


def _local_time(text: str) -> str:
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return text
