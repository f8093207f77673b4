"""`ipu-workbench import`: a Keras model of the user's own as an experiment."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from ipu_runtime.plan.problem import Problem
from workbench.data.dataset_facts import NAMED
from workbench.experiment.experiment_loading import LoadedExperiment
from workbench.experiment.model_tables import tables_for_file
from workbench.experiment.toml_text import to_toml
from workbench.headless.arguments import (
    add_experiment_argument,
    read_experiment,
)
from workbench.headless.commands.plan_command import plan_exit_code
from workbench.headless.diagnostics import say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.output import print_text, write_text
from workbench.models.model_source import (
    SOURCE_FORMS,
    anchored,
    looks_like_function,
    looks_like_source,
)
from workbench.planning.experiment_plan import plan_experiment
from workbench.services.refused import Refused, check_target

_FIELD_OF_OPTION = {
    "input_shape": "model.input_shape",
    "classes": "model.classes",
    "batch_size": "data.batch_size",
    "data": "data.dataset",
}


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "import",
        help="write an experiment around a Keras model of your own",
        description="Reads a Keras model and writes an experiment that trains it, on "
        "made-up data of the right shapes unless --data names some.",
    )
    add_experiment_argument(parser, metavar="SOURCE", meaning=SOURCE_FORMS)
    parser.add_argument(
        "--output", metavar="FILE", help="where to; without it to standard output"
    )
    parser.add_argument(
        "--input-shape", metavar="N,N,...", help="same as model.input_shape"
    )
    parser.add_argument("--classes", metavar="N", help="same as model.classes")
    parser.add_argument("--batch-size", metavar="N", help="same as data.batch_size")
    parser.add_argument(
        "--data",
        metavar="DATA",
        help="same as data.dataset: a .npz or .csv file, a directory of images, "
        "file.py:function",
    )
    parser.set_defaults(run=_import)


def _import(args: argparse.Namespace) -> int:
    if not looks_like_source(args.experiment):
        text, hint = f'"{args.experiment}" names no model', f"valid: {SOURCE_FORMS}"
        raise Refused(text, hint, "SOURCE")
    check_target("--output", args.output, args.experiment)
    options = {name: getattr(args, name) for name in _FIELD_OF_OPTION}
    given = {name: value for name, value in options.items() if value is not None}
    if "data" in given:
        # Their directory is not the experiment's.
        given["data"] = _absolute(given["data"])
    changes = [f"{_FIELD_OF_OPTION[name]}={value}" for name, value in given.items()]
    args.changes = [*changes, *args.changes]
    try:
        loaded = _fitting(args) if args.batch_size is None else read_experiment(args)[1]
    except Refused as error:
        raise Refused.for_problems(
            map(_by_option, error.problems), error.file
        ) from error
    for chosen in loaded.losses:
        say(f"loss of {chosen}")
    tables = tables_for_file(loaded.tables)
    if args.output is None:
        print_text(to_toml(tables))
        return ExitCode.DONE
    output = Path(os.path.expanduser(args.output))
    tables["model"]["source"] = _beside(tables["model"]["source"], output)
    if args.data is not None:
        tables["data"]["dataset"] = _beside(tables["data"]["dataset"], output)
    write_text(output, to_toml(tables))
    return ExitCode.DONE


def _by_option(problem: Problem) -> Problem:
    """Return a problem whose hint names this command's options, not fields."""
    hint = problem.hint
    for name, field in _FIELD_OF_OPTION.items():
        hint = hint.replace(field, f"--{name.replace('_', '-')}")
    return replace(problem, hint=hint)


def _absolute(data: str) -> str:
    if data in NAMED:
        return data
    if looks_like_function(data):
        return anchored(data, Path.cwd())
    return os.path.abspath(os.path.expanduser(data))


def _fitting(args: argparse.Namespace) -> LoadedExperiment:
    """Return the experiment with the first batch size that fits the device, or 1."""
    spec, loaded = read_experiment(args)
    changes, size = args.changes, spec.data.batch_size
    while size > 1 and plan_exit_code(plan_experiment(spec)) is ExitCode.NO_FIT:
        size //= 2
        args.changes = [*changes, f"data.batch_size={size}"]
        spec, loaded = read_experiment(args)
    return loaded


def _beside(source: str, output: Path) -> str:
    """Return the source as the file will look it up, short if it lies below it."""
    folder = str(output.absolute().parent) + os.sep
    full = anchored(source, Path.cwd())
    return full.removeprefix(folder) if full.startswith(folder) else full
