"""The command line: which commands there are, and what becomes of their errors."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

from ipu_runtime.reports.plain_text import plain_line
from workbench.cluster.place import ClusterError
from workbench.experiment.preset_store import DEFAULT_HEADLESS_PRESET, PresetError
from workbench.headless.diagnostics import report_problems, say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.output import discard_output
from workbench.locations import NoHomeError
from workbench.scripts.script_command import ScriptCommand
from workbench.services.refused import Refused
from workbench.store_json import RecordError

COMMANDS = {
    "presets": "workbench.headless.commands.presets_command",
    "import": "workbench.headless.commands.import_command",
    "plan": "workbench.headless.commands.plan_command",
    "balance": "workbench.headless.commands.balance_command",
    "optimize": "workbench.headless.commands.optimize_command",
    "run": "workbench.headless.commands.run_command",
    "sweep": "workbench.headless.commands.sweep_command",
    "cluster": "workbench.headless.commands.cluster_command",
    "runs": "workbench.headless.commands.runs_command",
    "export": "workbench.headless.commands.export_command",
    "report": "workbench.headless.commands.report_command",
    "exec": "workbench.headless.commands.exec_command",
    "capture": "workbench.headless.commands.capture_command",
    "validate": "workbench.headless.commands.validate_command",
    "serve": "workbench.headless.commands.serve_command",
}
"""Every command and the module with its `add_parser(subparsers)`."""


class OpenApp(Protocol):
    """Starts the terminal app; given by whoever knows both it and the commands."""

    def __call__(
        self,
        *,
        theme: str | None,
        ascii_only: bool,
        script: ScriptCommand | None = None,
    ) -> int: ...


def main(
    arguments: Sequence[str], environment: Mapping[str, str], open_app: OpenApp
) -> int:
    """Run a command, or the app when there is none; return the exit code."""
    try:
        args = parser_for(arguments).parse_args(arguments)
        args.environment, args.open_app = environment, open_app
        if args.command is None:
            return _without_command(args, open_app)
        code = int(args.run(args))
        if args.command != "exec":
            # A script's streams are its own; Python looks after them when it leaves.
            sys.stdout.flush()
    except Refused as error:
        report_problems(error.problems, error.file)
        return error.code
    except PresetError as error:
        report_problems([error.as_problem()])
        return ExitCode.USAGE
    except ClusterError as error:
        say(str(error))
        return ExitCode.USAGE
    except (RecordError, NoHomeError) as error:
        say(str(error))
        return ExitCode.FAILED
    except KeyboardInterrupt:
        say("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has enough.
        discard_output()
        return ExitCode.DONE
    except OSError as error:
        discard_output()
        # Only asking for the current directory misses something without a name.
        gone = "the current directory" if isinstance(error, FileNotFoundError) else ""
        what = error.filename or gone
        say(f"{what}: {error.strerror}" if what else str(error.strerror or error))
        return ExitCode.FAILED
    return code


class _Parser(argparse.ArgumentParser):
    """Shows what the user has typed as it can be seen; its subparsers are the same."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the arguments, and leave."""
        super().error(plain_line(message))


class _ShowVersion(argparse.Action):
    """Print the version and leave; only then is it looked up."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        # Loading it takes a tenth of the time of a whole `plan`.
        import importlib.metadata

        print(parser.prog, importlib.metadata.version("ipu-workbench"))
        parser.exit()


def parser_for(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser that understands these arguments."""
    parser = _Parser(
        prog="ipu-workbench",
        description="Experiments on an emulated Graphcore IPU. Without a command, "
        "opens the terminal app.",
    )
    parser.add_argument(
        "--version", action=_ShowVersion, nargs=0, help="show the version"
    )
    parser.add_argument("--theme", metavar="NAME", help="colours of the app")
    parser.add_argument(
        "--ascii",
        action="store_true",
        help="avoid braille and box characters in the app",
    )
    subparsers = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands"
    )
    for command in load_commands(arguments):
        command.add_parser(subparsers)
    return parser


def load_commands(arguments: Sequence[str]) -> list[Any]:
    """Load one command's module where one is named: the start must be quick."""
    first = arguments[0] if arguments else ""
    names = [first] if first in COMMANDS else list(COMMANDS)
    return [importlib.import_module(COMMANDS[name]) for name in names]


def _without_command(args: argparse.Namespace, open_app: OpenApp) -> int:
    if sys.stdin.isatty() and sys.stdout.isatty():
        return open_app(theme=args.theme, ascii_only=args.ascii)
    say(
        "this is not a terminal, so the app cannot open: running "
        f"{DEFAULT_HEADLESS_PRESET} headless instead"
    )
    return main(["run", DEFAULT_HEADLESS_PRESET], args.environment, open_app)
