"""`ipu-workbench balance`: which layers belong into which pipeline stage."""

from __future__ import annotations

import argparse
from typing import Any

from ipu_runtime.plan.balance.balance_types import Objective
from ipu_runtime.plan.problem import Problem
from workbench import api
from workbench.headless.arguments import (
    add_experiment_argument,
    add_update_samples,
    asked_samples,
    read_experiment,
)
from workbench.headless.diagnostics import report_problems
from workbench.headless.exit_codes import ExitCode
from workbench.headless.output import (
    add_text_arguments,
    print_document,
    print_json,
)
from workbench.planning.balance_json import balance_row
from workbench.views.balance import balance_document


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "balance", help="find the best stages of a pipeline, on the model"
    )
    add_experiment_argument(parser)
    parser.add_argument(
        "--stages", type=int, required=True, metavar="N", help="how many stages"
    )
    parser.add_argument(
        "--objective",
        choices=[objective.value for objective in Objective],
        default=Objective.STEP_TIME.value,
        help="what there should be least of (default: %(default)s)",
    )
    add_update_samples(parser)
    parser.add_argument("--json", action="store_true", help="one object")
    add_text_arguments(parser)
    parser.set_defaults(run=run_balance)


def run_balance(args: argparse.Namespace) -> int:
    """Print the best stages of an experiment."""
    spec, loaded = read_experiment(args)
    samples = asked_samples(args, spec)
    balanced = api.balance(spec, args.stages, args.objective, samples)
    result = balanced.result
    name = spec.experiment.name or loaded.preset.name
    if args.json:
        print_json(balance_row(balanced, name))
    if result.problem:
        report_problems([Problem("--stages", result.problem)], args.experiment)
        return ExitCode.USAGE
    if not args.json:
        title = f"{name}: {spec.experiment.title}" if spec.experiment.title else name
        print_document(balance_document(balanced, title), ascii_only=args.ascii)
    return ExitCode.DONE if result.feasible else ExitCode.NO_FIT
