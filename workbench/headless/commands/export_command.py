"""`ipu-workbench export`: an experiment as a script for the real API."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ipu_runtime.plan.problem import Problem
from workbench.experiment.experiment_loading import recorded_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.preset_store import UnknownPreset
from workbench.headless.arguments import (
    add_experiment_argument,
    read_experiment,
)
from workbench.headless.diagnostics import say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.output import print_text, write_text
from workbench.runs.run_store import open_run
from workbench.script_export import ScriptError, export_script
from workbench.services.refused import Refused, check_target
from workbench.store_json import UnknownRecord


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "export", help="write an experiment as a script for the real API"
    )
    add_experiment_argument(
        parser,
        metavar="PRESET|FILE|RUN",
        meaning="a preset, the path of a TOML file, a model, or the id of a run",
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
    check_target("--script", args.script, args.experiment)
    spec = _experiment(args)
    try:
        text = export_script(spec, sequential=args.sequential)
    except ScriptError as error:
        raise Refused.for_problems(
            [Problem("", str(error))], args.experiment
        ) from error
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
            return read_experiment(args, calls=False)[0]
        except Refused as refused:
            unknown = refused.__cause__
            if not isinstance(unknown, UnknownPreset):
                raise
            hint = unknown.hint or "see: ipu-workbench runs list"
            text = "there is no such preset or run"
            raise Refused(text, hint, unknown.where) from refused
    if args.changes:
        text = "a run is exported as it was"
        raise Refused(text, "export its preset instead", "--set")
    if run.script:
        text, hint = "is a run of a script", f"it is in {run.script.get('file', '?')}"
        raise Refused(text, hint, run.run_id)
    spec, problems = recorded_experiment(run.tables, say, trust=args.trust, calls=False)
    if spec is None:
        raise Refused.for_problems(problems, run.run_id)
    return spec
