"""The argument that says how many samples a weight update has."""

from __future__ import annotations

import argparse

from ipu_runtime.plan.problem import Problem
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.headless.diagnostics import UsageError
from workbench.planning.same_training import update_samples

UPDATE_SAMPLES = "--update-samples"
_ANY = "any"


def add_update_samples(parser: argparse.ArgumentParser) -> None:
    """Add the argument."""
    parser.add_argument(
        UPDATE_SAMPLES,
        metavar="N",
        help="samples of a weight update, or any, which trains otherwise (default: as "
        "many as the experiment has)",
    )


def asked_samples(args: argparse.Namespace, spec: ExperimentSpec) -> int:
    """Return the samples of a weight update that are asked for; 0 for any."""
    text = args.update_samples
    if text is None:
        return update_samples(spec)
    if text == _ANY:
        return 0
    if text.isdecimal() and int(text) > 0:
        return int(text)
    problem = f"{text!r} is no number of samples"
    raise UsageError([Problem(UPDATE_SAMPLES, problem, f"1 or more, or {_ANY}")])
