"""`ipu-workbench balance`: which layers belong into which pipeline stage."""

from __future__ import annotations

import argparse
from typing import Any

from ipu_runtime.plan.balance.balance_types import Candidate, Objective
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
from workbench.planning.balancing import BalancedExperiment
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
        print_json(_row(balanced, name))
    if result.problem:
        report_problems([Problem("--stages", result.problem)], args.experiment)
        return ExitCode.USAGE
    if not args.json:
        title = f"{name}: {spec.experiment.title}" if spec.experiment.title else name
        print_document(balance_document(balanced, title), ascii_only=args.ascii)
    return ExitCode.DONE if result.feasible else ExitCode.NO_FIT


def _row(balanced: BalancedExperiment, name: str) -> dict[str, Any]:
    """Return the object of --json; all figures are modelled."""
    result = balanced.result
    request = result.request
    names = [
        layer.name for layer in balanced.spec.model.layers if layer.kind != "Input"
    ]
    move = result.best_move
    return {
        "event": "balance",
        "preset": name,
        "modelled": True,
        "stages": request.stages,
        "objective": request.objective.value,
        "schedule": request.schedule.value,
        "micro_batches": request.micro_batches,
        "feasible": result.feasible,
        "exact": result.exact,
        "stage_of_layer": list(result.stage_of_layer),
        "layers": names,
        "step_time_us": result.step_time_us,
        "best": _candidate(result.best),
        "runner_up": _candidate(result.runner_up),
        "now": _candidate(result.now),
        "uniform": _candidate(result.uniform),
        "time_slack_us": list(result.time_slack_us),
        "memory_slack_bytes": list(result.memory_slack_bytes),
        "binding": result.binding,
        "best_move": move
        and {
            "layer": names[move.layer],
            "from_stage": move.from_stage,
            "to_stage": move.to_stage,
            "gain": move.gain,
        },
        "excess_bytes": result.excess_bytes,
        "fixes": [
            {
                "change": fix.change,
                "fits": fix.fits,
                "excess_bytes": fix.excess_bytes,
                "step_time_us": fix.step_time_us,
            }
            for fix in result.fixes
        ],
        "problem": result.problem,
        "changes": list(balanced.changes),
        "training_changes": list(balanced.training),
        "ipu_us_per_batch": balanced.plan.ipu_us_per_batch if result.feasible else None,
    }


def _candidate(candidate: Candidate | None) -> dict[str, Any] | None:
    if candidate is None:
        return None
    return {
        "stage_of_layer": list(candidate.stage_of_layer),
        "step_time_us": candidate.step_time_us,
        "bottleneck_us": candidate.bottleneck_us,
        "peak_bytes": candidate.peak_bytes,
        "crossing_bytes": candidate.crossing_bytes,
        "stage_us": list(candidate.stage_us),
        "stage_bytes": list(candidate.stage_bytes),
    }
