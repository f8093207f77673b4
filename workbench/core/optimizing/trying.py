"""One choice, planned with the cuts that may be best for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.problem import Severity
from workbench.core.experiment.experiment_spec import ExperimentSpec
from workbench.core.experiment.tables import spec_to_tables
from workbench.core.experiment.validation import validate
from workbench.core.optimizing.bounds import LayerCosts
from workbench.core.optimizing.choice import Choice, with_choice
from workbench.core.optimizing.goal import Aim, Goal
from workbench.core.optimizing.search_space import SearchSpace
from workbench.core.planning.balancing import balanced_experiment
from workbench.core.planning.experiment_plan import plan_experiment

REFUSED, NO_FIT = "refused", "does not fit"
"""Why there may be no plan: a rule, whatever the cuts, or memory."""
_SHARES = (1.0, 0.95, 0.9, 0.8, 0.7)
"""Of the memory, that cuts may fill by a bound which does not count all."""
_HALVINGS = 10
"""While searching for the least of them."""
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


def hopeful_cuts(
    costs: LayerCosts | None, choice: Choice, aim: Aim
) -> Iterator[tuple[int, ...]]:
    """Yield cuts of stages that hold their layers by the bound, and then some."""
    shares: tuple[float, ...] = _SHARES
    if aim.goal is Goal.MEMORY and costs:
        shares = (_least_share(costs, choice),)
    for share in shares:
        cut = costs.least_cut(choice, share) if costs else None
        if cut is None:
            return
        yield cut.stage_of_layer


def _least_share(costs: LayerCosts, choice: Choice) -> float:
    """Return the least share of the memory that some cut fits by the bound."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if costs.least_cut(choice, middle) is None:
            low = middle
        else:
            high = middle
    return high


def tried_out(
    space: SearchSpace, choice: Choice, aim: Aim, hopeful: Iterator[tuple[int, ...]]
) -> tuple[Found | str, bool]:
    """Return the choice with its best cuts, or why there are none.

    Balancing knows the time of a run exactly, but adds up the memory of layers;
    hopeful cuts know what layers share, but only the slowest stage's time. The second
    value tells whether other cuts than these are known to be no better.
    """
    kept = space.spec.pipeline.stages if "pipeline.stages" in space.fixed else ()
    chosen, exact = with_choice(space.spec, choice, kept), True
    if choice.stages > 1 and not kept:
        balanced = balanced_experiment(
            chosen, choice.stages, aim.balances.value, tries=_TRIES
        )
        if balanced.result.problem:
            return REFUSED, True
        exact = balanced.proven and aim.by_time
        outcomes: list[Found | str] = []
        if balanced.result.feasible:
            outcomes.append(planned(balanced.spec, choice, aim, exact=exact))
        for cuts in () if exact else hopeful:
            cut = with_choice(space.spec, choice, cuts)
            outcomes.append(planned(cut, choice, aim, exact=False))
            if outcomes[-1] != NO_FIT:
                break
        found = [item for item in outcomes if isinstance(item, Found)]
        refused = REFUSED in outcomes
        nothing = REFUSED if refused else NO_FIT
        best = min(found, key=lambda item: item.cost, default=nothing)
        return best, exact or refused
    return planned(chosen, choice, aim, exact=exact), True


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
