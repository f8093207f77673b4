"""`ipu-workbench export`: an experiment as a script for the real API."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ipu_runtime.plan.problem import Problem
from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.preset_store import PresetError
from workbench.core.record_files import UnknownRecord
from workbench.core.run_store import open_run
from workbench.core.script_export import ScriptError, export_script
from workbench.core.validation import validate
from workbench.headless.diagnostics import UsageError
from workbench.headless.exit_codes import ExitCode
from workbench.headless.experiment_argument import read_experiment
from workbench.headless.output import print_text
from workbench.headless.written_file import write_text


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "export", help="write an experiment as a script for the real API"
    )
    parser.add_argument(
        "experiment",
        metavar="PRESET|FILE|RUN",
        help="a preset, the path of a TOML file, or the id of a run",
    )
    parser.add_argument(
        "--set", dest="changes", metavar="FIELD=VALUE", action="append", default=[]
    )
    parser.add_argument(
        "--script", metavar="FILE", help="where to; without it to standard output"
    )
    parser.add_argument(
        "--sequential",
        action="store_true",
        help="write the model with the Sequential API",
    )
    parser.set_defaults(run=_export)


def _export(args: argparse.Namespace) -> int:
    spec = _experiment(args)
    try:
        text = export_script(spec, sequential=args.sequential)
    except ScriptError as error:
        raise UsageError([Problem("", str(error))], args.experiment) from error
    if args.script is None:
        print_text(text)
    else:
        write_text(Path(args.script), text)
    return ExitCode.DONE


def _experiment(args: argparse.Namespace) -> ExperimentSpec:
    """Return the experiment of a run if there is such a run, else of a preset."""
    try:
        run = open_run(args.experiment)
    except UnknownRecord:
        try:
            return read_experiment(args)[0]
        except PresetError as error:
            hint = error.hint or "see: ipu-workbench runs list"
            problem = Problem(error.where, "there is no such preset or run", hint)
            raise UsageError([problem]) from error
    if args.changes:
        text = "a run is exported as it was"
        raise UsageError([Problem("--set", text, "export its preset instead")])
    spec, problems = validate(run.tables)
    if spec is None:
        raise UsageError(problems, run.run_id)
    return spec
