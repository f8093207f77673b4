"""The arguments of every command that takes runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from ipu_runtime.plan.problem import Problem
from workbench.headless.diagnostics import UsageError
from workbench.runs.record_files import UnknownRecord
from workbench.runs.run_store import StoredRun, open_run

RUN_HELP = "id of a run or the beginning of it, or: latest"


def add_run_argument(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add `RUN`, or `RUN...`."""
    if several:
        parser.add_argument("runs", metavar="RUN", nargs="+", help=RUN_HELP)
    else:
        parser.add_argument("run_id", metavar="RUN", help=RUN_HELP)


def find_run(name: str) -> StoredRun:
    """Return the run that a user means, or raise with what is wrong."""
    return _found(partial(open_run, name))


def find_any_run(name: str) -> StoredRun:
    """Return the run that a user means, damaged or not."""
    return _found(partial(open_run, name, damaged_too=True))


def _found(look: Callable[[], StoredRun]) -> StoredRun:
    try:
        return look()
    except UnknownRecord as error:
        hint = "see: ipu-workbench runs list"
        raise UsageError([Problem("", str(error), hint)]) from error
