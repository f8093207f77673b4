"""`ipu-workbench exec`: run an unmodified IPU script on the emulated runtime."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from ipu_runtime.engine.watch.interception import intercepted_by
from ipu_runtime.installing.script import run_script
from ipu_runtime.plan.problem import Problem
from workbench.headless.diagnostics import say
from workbench.models.code_trust import trust
from workbench.models.model_source import SourceError
from workbench.overlays.overlay import Overlay
from workbench.scripts.recording import ScriptRecording
from workbench.scripts.script_command import ScriptCommand
from workbench.services.overlays import SCHEDULES, OverlayRequest, overlay
from workbench.services.refused import Refused


def add_parser(subparsers: Any) -> None:
    """Add the command; everything after the script belongs to the script."""
    parser = subparsers.add_parser(
        "exec",
        help="run an IPU script on the emulated runtime",
        description="Runs a script written for the IPU, unmodified; its exit code "
        "becomes that of the command. Settings can be changed from outside: what was "
        "replaced is told on standard error, and what the script does not take is "
        "refused before anything trains.",
    )
    parser.add_argument(
        "--custom-ops",
        metavar="FILE",
        help="Python file that registers functions in place of compiled operations",
    )
    parser.add_argument(
        "--no-record", action="store_true", help="keep no record of the run"
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="run it in the app, which draws what it records",
    )
    parser.add_argument(
        "--tell-record", metavar="FD", type=int, default=-1, help=argparse.SUPPRESS
    )
    _add_overlay_arguments(parser)
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER)
    parser.set_defaults(run=_run)


def _add_overlay_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--with",
        dest="overlay",
        metavar="FILE",
        help="experiment whose changed fields are laid over the script",
    )
    parser.add_argument(
        "--set",
        dest="changes",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help="change a field, for example --set ipu.io_tiles.num_io_tiles=32",
    )
    parser.add_argument(
        "--stages",
        metavar="LIST|balance:N",
        help="stage of every layer, for example 0,0,1,1, or the N best stages",
    )
    parser.add_argument(
        "--schedule", choices=SCHEDULES, help="same as pipeline.schedule"
    )


def _overlay_options(args: argparse.Namespace) -> list[str]:
    """Return the options as they were typed, for another process."""
    given = {"--with": args.overlay, "--stages": args.stages}
    given |= {"--schedule": args.schedule}
    typed = [word for option in given.items() if option[1] for word in option]
    return typed + [word for item in args.changes for word in ("--set", item)]


def _run(args: argparse.Namespace) -> int:
    # Named here, so that the app does not ask again; what it cannot be, it says.
    with suppress(SourceError):
        trust(Path(args.script))
    if args.watch:
        return _watch(args)
    request = OverlayRequest(
        args.script,
        tuple(args.arguments),
        args.overlay,
        args.changes,
        args.stages,
        args.schedule,
    )
    laid_over = overlay(request, say)
    overridden = laid_over.applied if laid_over is not None else ()
    watch = None if args.no_record else ScriptRecording(overridden, args.tell_record)
    if laid_over is None:
        return run_script(args.script, args.arguments, args.custom_ops, watch)
    return run_overlaid(args, laid_over, watch)


def _watch(args: argparse.Namespace) -> int:
    """Open the app, which runs the script in a process of its own."""
    problem = None
    if args.no_record:
        problem = Problem("--watch", "the app draws the record: leave out --no-record")
    elif not os.path.isfile(args.script):
        problem = Problem(args.script, "there is no such script")
    elif not (sys.stdin.isatty() and sys.stdout.isatty()):
        hint = "without it the script is recorded too: ipu-workbench runs show latest"
        problem = Problem("--watch", "needs a terminal for the app", hint)
    if problem is not None:
        raise Refused.for_problems([problem])
    options = _overlay_options(args)
    if args.custom_ops:
        options += ["--custom-ops", args.custom_ops]
    words = tuple(args.arguments)
    command = ScriptCommand(args.script, words, os.getcwd(), tuple(options))
    opened: int = args.open_app(theme=args.theme, ascii_only=args.ascii, script=command)
    return opened


def run_overlaid(
    args: argparse.Namespace, laid_over: Overlay, watch: ScriptRecording | None
) -> int:
    """Run a script with changes; a script that takes not all of them is refused."""
    with intercepted_by(laid_over):
        code = run_script(
            args.script,
            args.arguments,
            args.custom_ops,
            watch,
            failed=laid_over.failed,
        )
    if not code:
        laid_over.check_all_taken("its end")
    return laid_over.refused or code
