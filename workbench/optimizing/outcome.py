"""What a search comes to: the best, what else is worth a look, and why."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_runtime.plan.band import plan_band
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.optimizing.choice import Choice
from workbench.optimizing.goal import Aim
from workbench.optimizing.neighbours import neighbours
from workbench.optimizing.other_hardware import (
    Different,
    decides,
    other_hardware,
)
from workbench.optimizing.search import WORK, Search, Tell
from workbench.optimizing.search_space import SearchSpace
from workbench.optimizing.trying import Found
from workbench.planning.balancing import balanced_experiment
from workbench.planning.experiment_plan import plan_experiment

_MOST_ROWS = 8
_MOST_POLISHED = 400
"""Layers: the cuts of more are balanced for longer than everything else takes."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What one setting of the best choice is worth."""

    other: str
    """The setting instead: `schedule Interleaved`."""
    change: float | None
    """Of the goal's figure, as a share; None where it does not fit or run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a question for the best plan."""

    spec: ExperimentSpec
    """The experiment that was asked about."""
    update_samples: int
    """Samples that every weight update was to have; 0 for any."""
    aim: Aim
    best: tuple[Found, ...]
    """Not beaten in goal, memory and exactness at once; the best first."""
    worth: tuple[Worth, ...]
    different: tuple[Different, ...]
    """What other hardware would change about the best."""
    decides: tuple[str, ...]
    """Of every row: which part of a step its throughput depends on most."""
    undecided: frozenset[int]
    """Rows whose figure lies within what that of the best may be."""
    gap: float
    """How much better than the best something untried could be."""
    only_cuts: bool
    """Whether that could only be other cuts of settings that were tried."""
    tried: int
    too_large: tuple[str, ...] = ()
    """If nothing fits: layers that fit on no IPU, so that more would not help."""


def optimize(space: SearchSpace, aim: Aim, tell: Tell = lambda search: True) -> Outcome:
    """Search the space for what the aim wants."""
    search = Search(space, aim).run(tell)
    if search.best is None:
        return Outcome(
            space.spec,
            space.update_samples,
            aim,
            best=(),
            worth=(),
            different=(),
            decides=(),
            undecided=frozenset(),
            gap=0.0,
            only_cuts=True,
            tried=search.tried,
            too_large=search.too_large(),
        )
    best_found, worth = None, []
    # Where the search was cut short, a neighbour of its best may be better still.
    while search.best is not best_found:
        best_found = search.best
        worth = _worths(search, best_found.choice, tell)
    polished = _polished(best_found, aim, space)
    gap = max(0.0, (1 + search.gap) * polished.cost / search.best.cost - 1)
    found = [
        polished if item is search.best else item for item in search.found.values()
    ]
    best = _not_beaten(found)
    different = [other_hardware(item.plan, aim) for item in best]
    return Outcome(
        space.spec,
        space.update_samples,
        aim,
        best,
        tuple(worth),
        different[0],
        tuple(decides(f.plan, d) for f, d in zip(best, different, strict=True)),
        _undecided(best, aim),
        gap,
        search.only_cuts,
        search.tried,
    )


def _polished(found: Found, aim: Aim, space: SearchSpace) -> Found:
    """Return the best choice with the best cuts that a whole balancing finds."""
    stages = found.choice.stages
    if found.exact or stages == 1 or "pipeline.stages" in space.fixed:
        return found
    if len(found.spec.model.layers) > _MOST_POLISHED:
        return found
    balanced = balanced_experiment(found.spec, stages, aim.balances.value)
    if not balanced.result.feasible:
        return found
    plan = plan_experiment(balanced.spec)
    cost = aim.cost(plan)
    if cost >= found.cost:
        return found
    return Found(found.choice, balanced.spec, plan, cost, balanced.proven)


def _not_beaten(found: list[Found]) -> tuple[Found, ...]:
    """Return what nothing else beats in the goal, in memory and in exactness."""
    ordered = sorted(found, key=lambda item: (item.cost, item.plan.memory_fraction))
    kept: list[Found] = []
    for item in ordered:
        if not any(_at_least_as_good(other, item) for other in kept):
            kept.append(item)
    return tuple(kept[:_MOST_ROWS])


def _undecided(best: tuple[Found, ...], aim: Aim) -> frozenset[int]:
    """Return the rows that may be as good as the first, for all the model knows."""
    band = plan_band(best[0].plan)
    if band is None:
        return frozenset()
    limits = band.of(aim.cost)
    rows = enumerate(best[1:], 1)
    return frozenset(at for at, found in rows if limits.holds(found.cost))


def _at_least_as_good(one: Found, other: Found) -> bool:
    return (
        one.cost <= other.cost
        and one.plan.memory_fraction <= other.plan.memory_fraction
        and less_exact(one.choice) <= less_exact(other.choice)
    )


def less_exact(choice: Choice) -> bool:
    """Tell whether sums are rounded to half precision on the way."""
    return bool(choice.device.half_partials)


def _worths(search: Search, choice: Choice, tell: Tell) -> list[Worth]:
    """Return what is lost by every other value of one setting.

    Of large models only by as many as a while allows.
    """
    best = search.found[choice].cost
    tried = [
        (what, search.try_alone(other))
        for what, other in neighbours(search.space, choice)
        if other in search.found or (search.work > -WORK / 3 and tell(search))
    ]
    tried.sort(key=lambda item: item[1].cost if item[1] else float("inf"))
    change = search.aim.change
    return [Worth(what, change(f.cost, best) if f else None) for what, f in tried]
