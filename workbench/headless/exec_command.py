"""`ipu-workbench exec`: run an unmodified IPU script on the emulated runtime."""

from __future__ import annotations

import argparse
from typing import Any

from ipu_runtime.script import run_script


def add_parser(subparsers: Any) -> None:
    """Add the command; everything after the script belongs to the script."""
    parser = subparsers.add_parser(
        "exec",
        help="run an IPU script on the emulated runtime",
        description="Runs a script written for the IPU, unmodified; its exit code "
        "becomes that of the command.",
    )
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    return run_script(args.script, args.arguments)
