"""`runs delete`, `runs note` and `runs tag`: keeping the list of runs in order."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ipu_runtime.reports.plain_text import plain_text
from workbench.headless.arguments import add_run_argument
from workbench.headless.diagnostics import say
from workbench.headless.exit_codes import ExitCode
from workbench.services.recorded_runs import (
    annotate,
    check_tags,
    delete,
    find,
    notes_of,
)
from workbench.services.refused import Refused


def add_actions(actions: Any) -> None:
    """Add what changes records."""
    deleting = actions.add_parser("delete", help="delete runs that have ended")
    add_run_argument(deleting, several=True)
    deleting.add_argument("--yes", action="store_true", help="do not ask")
    deleting.set_defaults(run=_delete)
    noting = actions.add_parser("note", help="write a note to a run")
    add_run_argument(noting)
    noting.add_argument("text", metavar="TEXT", help="the note; '' takes it away")
    noting.set_defaults(run=_note)
    tagging = actions.add_parser("tag", help="give a run tags, or take them away")
    add_run_argument(tagging)
    tagging.add_argument(
        "tags", metavar="TAG", nargs="+", help="letters, digits, . _ -"
    )
    tagging.add_argument("--remove", action="store_true", help="take the tags away")
    tagging.set_defaults(run=_tag)


def _delete(args: argparse.Namespace) -> int:
    found = (find(name, damaged_too=True) for name in args.runs)
    runs = {run.run_id: run for run in found}
    names = ", ".join(f"{run.run_id} ({run.preset})" for run in runs.values())
    if not args.yes and not _agrees(f"delete {names}? What they hold is lost. [y/N] "):
        say("nothing is deleted")
        return ExitCode.DONE
    failed = False
    for run in runs.values():
        try:
            delete(run)
            say(f"{run.run_id} is deleted")
        except Refused as refused:
            say(str(refused))
            failed = True
    return ExitCode.FAILED if failed else ExitCode.DONE


def _agrees(question: str) -> bool:
    if not sys.stdin.isatty():
        hint = "say --yes, or use a terminal"
        raise Refused("nobody can be asked here", hint, "--yes")
    sys.stderr.write(plain_text(question))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _note(args: argparse.Namespace) -> int:
    run = find(args.run_id)
    notes = annotate(run, note=args.text)
    say(f"{run.run_id}: {notes.note or 'no note'}")
    return ExitCode.DONE


def _tag(args: argparse.Namespace) -> int:
    run = find(args.run_id)
    check_tags(args.tags)
    kept = [tag for tag in notes_of(run).tags if tag not in args.tags]
    notes = annotate(run, tags=(*kept, *([] if args.remove else args.tags)))
    say(f"{run.run_id}: {' '.join(sorted(set(notes.tags))) or 'no tags'}")
    return ExitCode.DONE
