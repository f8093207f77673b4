"""The one cut whose move would help most, by the plan's own figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.problem import Severity
from ipu_runtime.reports.quantities import change
from workbench.core.experiment.experiment_spec import ExperimentSpec
from workbench.core.planning.experiment_plan import plan_experiment

_DISTANCES = (1, 2, 4, 8)
"""Layers by which a cut is moved to see whether that helps."""
_WORTH_SAYING = 0.995
"""Less than half a percent would read as nothing."""


@dataclass(frozen=True, slots=True)
class CutAdvice:
    """A cut moved by some layers, and what the plan says of it."""

    stages: tuple[int, ...]
    text: str
    """`cut after stage 0 up by one layer: -9 % per batch`."""


def advise_cut(
    spec: ExperimentSpec, plan: Plan, given_up: Callable[[], bool]
) -> CutAdvice | None:
    """Return the best move of one cut, None if none helps or nobody wants to know.

    What fits is better than what is faster.
    """
    now = (not _fits(plan), plan.ipu_us_per_batch * _WORTH_SAYING)
    best, found = now, None
    for stages, words in _moves(spec):
        if given_up():
            return None
        moved = replace(spec, pipeline=replace(spec.pipeline, stages=stages))
        planned = plan_experiment(moved, with_remedies=False)
        if any(item.severity is Severity.ERROR for item in planned.problems):
            continue
        rank = (not _fits(planned), planned.ipu_us_per_batch)
        if rank < best:
            best = rank
            gain = change(planned.ipu_us_per_batch, plan.ipu_us_per_batch)
            gain = f"fits, {gain}" if now[0] and not rank[0] else f"{gain} per batch"
            found = CutAdvice(stages, f"{words}: {gain}")
    return found


def _fits(plan: Plan) -> bool:
    return all(memory.fits for memory in plan.memory)


def _moves(spec: ExperimentSpec) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yield other stages, and which cut was moved where."""
    stages = spec.pipeline.stages
    layers = [layer for layer in spec.model.layers if layer.kind != "Input"]
    locked = {i for i, item in enumerate(layers) if item.name in spec.pipeline.locked}
    cuts = [i for i in range(1, len(stages)) if stages[i] != stages[i - 1]]
    for start, cut, end in zip(
        [0, *cuts[:-1]], cuts, [*cuts[1:], len(stages)], strict=True
    ):
        for distance in _DISTANCES:
            for place in (cut - distance, cut + distance):
                low, high = min(place, cut), max(place, cut)
                if not start < place < end or locked.intersection(range(low, high)):
                    continue
                stage = stages[cut] if place < cut else stages[cut - 1]
                moved = (*stages[:low], *(stage,) * (high - low), *stages[high:])
                far = "one layer" if distance == 1 else f"{distance} layers"
                way = "up" if place < cut else "down"
                yield moved, f"cut after stage {stages[cut - 1]} {way} by {far}"
