"""`ipu-workbench capture`: a script's model and settings as an experiment."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

from ipu_runtime.engine.watch.interception import intercepted_by
from ipu_runtime.installing.script import run_script
from ipu_runtime.plan.problem import Problem
from workbench.experiment.preset_store import load_preset
from workbench.experiment.toml_text import to_toml
from workbench.experiment.validation import validate
from workbench.headless.diagnostics import UsageError, report_problems, say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.output import check_target, print_line, write_text
from workbench.models.captured_model import CapturedModel, write_capture
from workbench.models.code_trust import trust
from workbench.models.model_source import CAPTURE_ENDING, SourceError, parse_source
from workbench.models.source_reading import read_source
from workbench.overlays.capture import Capture
from workbench.overlays.captured_tables import captured_source, captured_tables
from workbench.overlays.patch import patch_lines
from workbench.overlays.script_fields import changes_of
from workbench.overlays.script_lines import code_of

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
        raise UsageError([Problem("--output", "say either this or --diff", hint)])
    _check_output(args)
    diff = load_preset(args.diff) if args.diff else None
    with contextlib.suppress(SourceError):
        trust(Path(args.script))
    capture = Capture(code_of(args.script), args.program)
    with intercepted_by(capture), contextlib.redirect_stdout(sys.stderr):
        code = run_script(args.script, args.arguments)
    if capture.program is None:
        return _nothing_captured(args, capture, code)
    if capture.program.request is None:
        say(f"{capture.seen[-1]} cannot be planned: {capture.program.reason}")
        return ExitCode.FAILED
    words = " ".join([os.path.basename(args.script), *args.arguments])
    title = f"{words}, {capture.seen[-1]}"
    tables, remarks = captured_tables(capture, title, Path(args.script).stem)
    for remark in remarks:
        say(f"warning: {remark}")
    if diff is None:
        return _write(args, capture, tables, remarks)
    changes = changes_of(diff.tables, tables)
    for line in patch_lines(capture, changes, diff.tables):
        print_line(line)
    return ExitCode.DONE


def _check_output(args: argparse.Namespace) -> None:
    """Refuse what could not be written, before the script runs for hours."""
    if args.output is None:
        return
    check_target("--output", args.output, args.script)
    output = Path(os.path.expanduser(args.output))
    if output.exists() and not output.is_file():
        text = f"{output} is no regular file, and another one is written beside it"
        raise UsageError([Problem("--output", text, "name a file")])


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
                raise UsageError([Problem(name, "needs a value")])
            value, position = own[position + 1], position + 1
        setattr(args, name.removeprefix("--"), value)
        position += 1
    del separator
    args.arguments = [*kept, *rest]


def _nothing_captured(args: argparse.Namespace, capture: Capture, code: int) -> int:
    if code != ExitCode.DONE:
        return code
    if not capture.seen:
        say(f"{args.script} has run no program on the IPU")
        return ExitCode.FAILED
    hint = f"valid: 1 to {len(capture.seen)}, {', '.join(capture.seen)}"
    text = f"{args.script} has no program {args.program}"
    raise UsageError([Problem("--program", text, hint)])


def _write(
    args: argparse.Namespace,
    capture: Capture,
    tables: dict[str, Any],
    remarks: list[str],
) -> int:
    assert capture.program is not None
    output = Path(os.path.expanduser(args.output))
    beside = output.with_suffix(CAPTURE_ENDING)
    script = os.path.abspath(args.script)
    captured = CapturedModel(
        script,
        tuple(args.arguments),
        capture.seen[-1],
        captured_source(capture.program),
        tables,
    )
    write_capture(beside, captured)
    table = {**tables, "model": {"source": beside.name}}
    samples = tables["data"]["train_samples"]
    made_up = (
        f"data.dataset: {samples:,} made-up samples stand for the script's own data, "
        "for planning; exec takes the script's"
    )
    say(made_up)
    notes = [f"# Captured from {capture.seen[-1]} of {script}", made_up, *remarks]
    write_text(output, "\n# ".join(notes) + "\n\n" + to_toml(table))
    source = parse_source(str(beside))
    read_source(source, say, trust=False, calls=False)
    _, problems = validate({**tables, "model": {"source": source.text}})
    report_problems(problems, str(output))
    return ExitCode.DONE
