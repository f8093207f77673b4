"""One choice, planned with the cuts that may be best for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.problem import Severity
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.validation import validate
from workbench.optimizing.bounds import LayerCosts
from workbench.optimizing.choice import Choice, with_choice
from workbench.optimizing.cut_bounds import ordered_cuts
from workbench.optimizing.goal import Aim, Goal
from workbench.optimizing.search_space import SearchSpace
from workbench.planning.balancing import balanced_experiment
from workbench.planning.experiment_plan import plan_experiment

REFUSED, NO_FIT = "refused", "does not fit"
"""Why there may be no plan: a rule, whatever the cuts, or memory."""
_SHARES = (1.0, 0.95, 0.9, 0.8, 0.7)
"""Of the memory, that cuts may fill by a bound which does not count all."""
_MOST_PLANNED = 16
"""Of the cuts that are looked at one by one; nearly always the first is the best."""
_FAR = 1.05
"""Of what is wanted: balancing gains less on cuts that are hopeful."""
_TRIES = 2
"""Halvings while searching for cuts that fit; the best gets all of them."""


@dataclass(frozen=True, slots=True)
class Found:
    """A choice with the best cuts that were found for it, planned; it fits."""

    choice: Choice
    spec: ExperimentSpec
    plan: Plan
    cost: float
    exact: bool
    """Whether no other cuts are better."""


def tried_out(
    space: SearchSpace,
    choice: Choice,
    aim: Aim,
    costs: LayerCosts | None,
    wanted: float = float("inf"),
) -> tuple[Found | str, bool]:
    """Return the choice with its best cuts, or why there are none.

    The second value tells whether other cuts are known to be no better. Of many cuts
    fewer are tried where the first is far above the cost that is wanted.
    """
    if choice.stages == 1:
        spec = with_choice(space.spec, choice)
        return planned(spec, choice, aim, exact=True), True
    if costs is None:
        return REFUSED, True
    cuts = ordered_cuts(costs, choice, aim)
    if cuts is not None:
        return _best_of(space, choice, aim, cuts, wanted)
    hopeful = _hopeful(space, choice, aim, costs)
    if isinstance(hopeful, Found) and hopeful.cost > _FAR * wanted:
        return hopeful, False
    return _balanced(space, choice, aim, hopeful)


def _best_of(
    space: SearchSpace,
    choice: Choice,
    aim: Aim,
    cuts: Iterator[tuple[float, tuple[int, ...]]],
    wanted: float,
) -> tuple[Found | str, bool]:
    """Plan cuts until one fits and no other can be better, or as good as is wanted."""
    best: Found | str = NO_FIT
    for number, (least, stages) in enumerate(cuts):
        if isinstance(best, Found) and min(best.cost, wanted) <= least:
            break
        if number == _MOST_PLANNED:
            return best, False
        spec = with_choice(space.spec, choice, stages)
        outcome = planned(spec, choice, aim, exact=True)
        if outcome == REFUSED:
            return best if isinstance(best, Found) else outcome, True
        if isinstance(outcome, Found) and (
            not isinstance(best, Found) or outcome.cost < best.cost
        ):
            best = outcome
    return best, True


def _hopeful(
    space: SearchSpace, choice: Choice, aim: Aim, costs: LayerCosts
) -> Found | str:
    """Return the first that fits of some cuts which may by their bound.

    It knows what layers share, but only the slowest stage's time.
    """
    outcome: Found | str = NO_FIT
    for cuts in _hopeful_cuts(costs, choice, aim):
        spec = with_choice(space.spec, choice, cuts)
        outcome = planned(spec, choice, aim, exact=False)
        if outcome != NO_FIT:
            break
    return outcome


def _balanced(
    space: SearchSpace, choice: Choice, aim: Aim, hopeful: Found | str
) -> tuple[Found | str, bool]:
    """Return the better of hopeful cuts and those of balancing.

    It knows the time of a run exactly, but adds up the memory of layers.
    """
    chosen = with_choice(space.spec, choice)
    # Locked layers stay where the experiment has them.
    placed = replace(chosen.pipeline, stages=space.spec.pipeline.stages)
    chosen = replace(chosen, pipeline=placed)
    balanced = balanced_experiment(
        chosen,
        choice.stages,
        aim.balances.value,
        before=space.spec,
        tries=_TRIES,
    )
    if balanced.result.problem:
        return REFUSED, True
    exact = balanced.proven and aim.by_time
    outcomes = [hopeful]
    if balanced.result.feasible:
        outcomes.append(planned(balanced.spec, choice, aim, exact=exact))
    found = [item for item in outcomes if isinstance(item, Found)]
    refused = REFUSED in outcomes
    nothing = REFUSED if refused else NO_FIT
    best = min(found, key=lambda item: item.cost, default=nothing)
    return best, exact or refused


def _hopeful_cuts(
    costs: LayerCosts, choice: Choice, aim: Aim
) -> Iterator[tuple[int, ...]]:
    """Yield cuts of stages that hold their layers by the bound, and then some."""
    if aim.goal is Goal.MEMORY:
        cut = costs.least_filled(choice)
        if cut is not None:
            yield cut.stage_of_layer
        return
    for share in _SHARES:
        cut = costs.least_cut(choice, share)
        if cut is None:
            return
        yield cut.stage_of_layer


def planned(
    spec: ExperimentSpec, choice: Choice, aim: Aim, *, exact: bool
) -> Found | str:
    """Return what comes of an experiment, or why nothing does."""
    plan = plan_experiment(spec, with_remedies=False)
    severities = {problem.severity for problem in plan.problems}
    if Severity.ERROR in severities or not plan.layers:
        return REFUSED
    if Severity.NO_FIT in severities:
        return NO_FIT
    if validate(spec_to_tables(spec))[0] is None:
        return REFUSED
    return Found(choice, spec, plan, aim.cost(plan), exact)
