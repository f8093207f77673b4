"""`--fail-if` and `--compare`: a plan as a gate for builds."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ipu_runtime.plan.plan_json import plan_to_json
from ipu_runtime.reports.document import Document, Section
from workbench.headless.arguments import read_experiment
from workbench.headless.diagnostics import say
from workbench.headless.output import print_document, print_line
from workbench.planning.experiment_plan import plan_experiment
from workbench.planning.plan_gate import (
    FIGURE_NAMES,
    Condition,
    GateError,
    PlanFigures,
    compared_table,
    parse_condition,
)
from workbench.services.refused import Refused
from workbench.store_json import UnknownRecord, read_json


def add_gate_arguments(parser: argparse.ArgumentParser) -> None:
    """Add both options."""
    parser.add_argument(
        "--fail-if",
        metavar="CONDITION",
        action="append",
        default=[],
        help="exit with 4 if it holds: 'memory > 90 %%', 'samples_per_second < 200000',"
        " 'ipu_us_per_batch change > 5 %%'; all modelled: memory is how full the "
        "fullest tile is, sum_over_tiles the bytes of an IPU, ipu_us_per_batch time "
        "per batch of data over all replicas, ipu_step_us the time in which every "
        "replica takes one batch; "
        f"figures: {', '.join(FIGURE_NAMES)}",
    )
    parser.add_argument(
        "--compare",
        metavar="RUN|FILE",
        help="also show another plan: of a run, of an experiment, or what "
        "plan --json printed into a .json file",
    )


def read_gate(args: argparse.Namespace) -> tuple[list[Condition], PlanFigures | None]:
    """Return the conditions and the other plan, or raise with what is wrong."""
    compared = args.compare is not None
    try:
        conditions = [parse_condition(text, compared=compared) for text in args.fail_if]
    except GateError as error:
        raise Refused(str(error), where="--fail-if") from error
    return conditions, _other_plan(args) if compared else None


def gate_keeps(
    conditions: list[Condition], plan: PlanFigures, other: PlanFigures | None
) -> bool:
    """Say what is over, one line each; tell whether nothing is."""
    try:
        broken = [text for each in conditions if (text := each.broken_by(plan, other))]
    except GateError as error:
        raise Refused(str(error), where="--fail-if") from error
    for text in broken:
        say(text)
    return not broken


def print_comparison(plan: PlanFigures, other: PlanFigures, name: str) -> None:
    """Print this plan's figures beside those of the other."""
    print_line()
    section = Section("", (compared_table(plan, other, name),))
    print_document(Document("", (section,)))


def _other_plan(args: argparse.Namespace) -> PlanFigures:
    name = str(args.compare)
    plan: PlanFigures | None = None
    if name.endswith(".json"):
        plan = _written_plan(Path(name))
    if plan is None:
        plan = _plan_of_run(name)
    if plan is None:
        other = argparse.Namespace(**{**vars(args), "experiment": name, "changes": []})
        plan = plan_to_json(plan_experiment(read_experiment(other)[0]))
    if reason := plan.get("not_modelled"):
        raise Refused(f"{name} has no figures; {reason}", where="--compare")
    try:
        compared_table(plan, plan, name)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise Refused(
            f"{name} holds no plan with figures", where="--compare"
        ) from error
    return plan


def _plan_of_run(name: str) -> PlanFigures | None:
    # Late, because few plans are compared with runs.
    from workbench.runs.run_store import open_run

    try:
        return open_run(name).plan
    except UnknownRecord:
        return None


def _written_plan(path: Path) -> dict[str, Any] | None:
    """Return what `plan --json` printed; None for other files, such as models."""
    # Late, as above.
    from workbench.runs.run_store import MOST_PLAN_BYTES

    content = read_json(path, MOST_PLAN_BYTES)
    return content if content and content.get("event") == "plan" else None
