"""The arguments of every command that takes an experiment."""

from __future__ import annotations

import argparse

from ipu_runtime.plan.problem import Severity
from workbench.experiment.experiment_loading import (
    LoadedExperiment,
    load_experiment,
)
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.headless.diagnostics import UsageError, report_problems, say


def add_experiment_argument(
    parser: argparse.ArgumentParser,
    *,
    optional: bool = False,
    metavar: str = "PRESET|FILE",
    meaning: str = "name of a preset, path of a TOML file, or a model: model.keras, "
    "keras:NAME, file.py:function",
) -> None:
    """Add `PRESET|FILE` and `--set`."""
    nargs = "?" if optional else None
    parser.add_argument("experiment", nargs=nargs, metavar=metavar, help=meaning)
    parser.add_argument(
        "--set",
        dest="changes",
        metavar="FIELD=VALUE",
        action="append",
        default=[],
        help="change a field, for example --set train.epochs=1; may be repeated",
    )
    add_trust_argument(parser)


def add_trust_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--trust`."""
    parser.add_argument(
        "--trust",
        action="store_true",
        help="let code run that a preset, a record or a model file names; remembered "
        "until it changes",
    )


def read_experiment(
    args: argparse.Namespace, *, calls: bool = True, warn: bool = True
) -> tuple[ExperimentSpec, LoadedExperiment]:
    """Return the experiment that the arguments name, or raise with every problem.

    Warnings are printed, unless who calls shows them with the plan's. Without `calls`,
    no function of the user's is called.
    """
    loaded = load_experiment(
        args.experiment,
        args.changes,
        args.environment,
        trust=args.trust,
        calls=calls,
        tell=say,
    )
    if loaded.spec is None:
        errors = (item for item in loaded.problems if item.severity is Severity.ERROR)
        raise UsageError(errors, str(args.experiment))
    if warn:
        report_problems(loaded.problems, str(args.experiment))
    return loaded.spec, loaded
