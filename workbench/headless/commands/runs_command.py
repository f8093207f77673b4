"""`ipu-workbench runs`: list them, show one, compare several, hand them on."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Any

from workbench.comparing.listed_runs import listed_runs
from workbench.export.run_export import run_to_json
from workbench.headless.arguments import add_run_argument
from workbench.headless.commands.runs_keeping import add_actions
from workbench.headless.diagnostics import say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.output import print_json, print_table
from workbench.locations import runs_directory
from workbench.runs.run_notes import read_notes
from workbench.runs.run_store import list_runs

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
    showing.set_defaults(run=_look_closer)
    comparing = actions.add_parser("compare", help="put runs side by side")
    add_run_argument(comparing, several=True)
    comparing.add_argument(
        "--explain",
        action="store_true",
        help="also go from the first run to the second one changed field at a time, "
        "with the modelled cost of each",
    )
    comparing.set_defaults(run=_look_closer)
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
    exporting.set_defaults(run=_look_closer)
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
    for item in listed_runs(shown):
        run, known = item.run, item.outcome
        epochs, wanted = f"{known.get('epochs', 0):.0f}", run.epochs_wanted
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
                item.said,
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


def _look_closer(args: argparse.Namespace) -> int:
    # The planner and charts take longer to load than a list of thousands takes.
    from workbench.headless.commands.runs_showing import ACTIONS

    return ACTIONS[args.action](args)


def _local_time(text: str) -> str:
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return text
