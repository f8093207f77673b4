"""The arguments of every command that takes an experiment."""

from __future__ import annotations

import argparse

from ipu_runtime.plan.problem import Severity
from workbench.core.experiment_loading import LoadedExperiment, load_experiment
from workbench.core.experiment_spec import ExperimentSpec
from workbench.headless.diagnostics import UsageError, report_problems


def add_experiment_argument(
    parser: argparse.ArgumentParser, *, changes: bool = True, optional: bool = False
) -> None:
    """Add `PRESET|FILE` and `--set`."""
    parser.add_argument(
        "experiment",
        nargs="?" if optional else None,
        metavar="PRESET|FILE",
        help="name of a preset, or path of a TOML file",
    )
    if changes:
        parser.add_argument(
            "--set",
            dest="changes",
            metavar="FIELD=VALUE",
            action="append",
            default=[],
            help="change a field, for example --set train.epochs=1; may be repeated",
        )


def read_experiment(
    args: argparse.Namespace,
) -> tuple[ExperimentSpec, LoadedExperiment]:
    """Return the experiment that the arguments name, or raise with every problem.

    Warnings are printed.
    """
    loaded = load_experiment(
        args.experiment, getattr(args, "changes", ()), args.environment
    )
    if loaded.spec is None:
        errors = (item for item in loaded.problems if item.severity is Severity.ERROR)
        raise UsageError(errors, str(args.experiment))
    report_problems(loaded.problems, str(args.experiment))
    return loaded.spec, loaded
