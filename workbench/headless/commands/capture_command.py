"""`ipu-workbench capture`: a script's model and settings as an experiment."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

from workbench.experiment.preset_store import load_preset
from workbench.headless.diagnostics import report_problems, say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.output import print_line
from workbench.services.captures import capture_script, write_captured
from workbench.services.refused import Refused
from workbench.services.scripts import check_capture

_OWN_OPTIONS = ("--output", "--program", "--diff")


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "capture",
        help="write a script's model and settings as an experiment",
        description="Runs a script up to a program of the IPU, and writes what it was "
        "about to run as an experiment. The model goes into a file beside it.",
    )
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument(
        "arguments",
        metavar="ARGS",
        nargs=argparse.REMAINDER,
        help="of the script, apart from this command's own options, which may stand "
        "at the end; after -- all are the script's",
    )
    parser.add_argument("--output", metavar="FILE", help="where to: a TOML file")
    parser.add_argument(
        "--program",
        metavar="N|NAME",
        default="1",
        help="which program: its number, or for example evaluate or fit-2; those "
        "before it run (default: the first)",
    )
    parser.add_argument(
        "--diff",
        metavar="FILE",
        help="print the calls that would make the script as an experiment is",
    )
    parser.set_defaults(run=_capture)


def _capture(args: argparse.Namespace) -> int:
    _take_options(args)
    if (args.output is None) == (args.diff is None):
        hint = "--output FILE writes an experiment, --diff FILE compares with one"
        raise Refused("say either this or --diff", hint, "--output")
    if args.output is not None:
        check_capture(args.script, args.output)
    diff = load_preset(args.diff) if args.diff else None
    with contextlib.redirect_stdout(sys.stderr):
        captured = capture_script(args.script, args.arguments, args.program)
    for remark in captured.remarks:
        say(f"warning: {remark}")
    if diff is None:
        problems = write_captured(captured, args.output, say)
        report_problems(problems, str(Path(os.path.expanduser(args.output))))
        return ExitCode.DONE
    for line in captured.patch(diff.tables):
        print_line(line)
    return ExitCode.DONE


def _take_options(args: argparse.Namespace) -> None:
    """Take this command's own options from among the script's arguments."""
    own, separator, rest = list(args.arguments), [], []
    if "--" in own:
        at = own.index("--")
        own, separator, rest = own[:at], own[at : at + 1], own[at + 1 :]
    kept, position = [], 0
    while position < len(own):
        name, equals, value = own[position].partition("=")
        if name not in _OWN_OPTIONS:
            kept.append(own[position])
            position += 1
            continue
        if not equals:
            if position + 1 == len(own):
                raise Refused("needs a value", where=name)
            value, position = own[position + 1], position + 1
        setattr(args, name.removeprefix("--"), value)
        position += 1
    del separator
    args.arguments = [*kept, *rest]
