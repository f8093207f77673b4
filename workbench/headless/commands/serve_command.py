"""`ipu-workbench serve`: the app in a browser on this machine."""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import sys
from typing import Any

from workbench.headless.diagnostics import say
from workbench.headless.exit_codes import ExitCode

_HOST = "127.0.0.1"
"""Only this machine: whoever can open the page can run experiments and write files."""
_HIGHEST_PORT = 65535


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "serve",
        help="show the app in a browser on this machine",
        description="Shows the app in a browser. It listens on the loopback address "
        "only, and answers only who knows the address that it prints. Needs the "
        "extra: pip install 'ipu-workbench[serve]'.",
    )
    parser.add_argument("--port", type=_port, default=8000, help="default: 8000")
    parser.set_defaults(run=_serve)


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= _HIGHEST_PORT:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a port; valid: 1 to {_HIGHEST_PORT}"
        )
    return int(text)


def _serve(args: argparse.Namespace) -> int:
    if importlib.util.find_spec("textual_serve") is None:
        say("serve needs an extra: pip install 'ipu-workbench[serve]'")
        return ExitCode.USAGE
    # Loaded only to serve: no other command needs it.
    from workbench.headless.serving.guarded_server import GuardedServer

    # The app takes the place of the shell, so that it knows whose child it is.
    command = "exec " + shlex.join([sys.executable, "-m", "workbench.ui"])
    GuardedServer(command, _HOST, args.port, "ipu-workbench").serve()
    return ExitCode.DONE
