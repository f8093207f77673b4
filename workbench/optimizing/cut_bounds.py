"""All cuts of a choice, those that may be best first, where there are not too many."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb

import numpy as np

from ipu_runtime.plan.balance.interval_costs import Ints
from ipu_runtime.plan.planner import compile_share
from ipu_runtime.plan.schedule.schedule import (
    Recomputation,
    ScheduleKind,
    automatic_recomputation,
)
from ipu_runtime.plan.schedule.stage_clock import find_supersteps
from workbench.optimizing.bounds import LayerCosts
from workbench.optimizing.choice import Choice
from workbench.optimizing.goal import Aim, Goal
from workbench.optimizing.least_memory import Floats

_MOST_CUTS = 3000
"""So many are looked at one by one."""


def ordered_cuts(
    costs: LayerCosts, choice: Choice, aim: Aim
) -> Iterator[tuple[float, tuple[int, ...]]] | None:
    """Yield the least cost of every cut that may fit, and the stage of every layer.

    None if there are too many.
    """
    layers, stages = costs.allowed.layers, choice.stages
    starts = np.array(costs.allowed.starts(stages))
    places = np.flatnonzero(starts.any(axis=0))
    if comb(len(places), stages - 1) > _MOST_CUTS:
        return None
    inner = [
        chosen
        for chosen in combinations(places.tolist(), stages - 1)
        if starts[range(stages - 1), chosen].all()
    ]
    bounds = np.zeros((len(inner), stages + 1), dtype=np.int64)
    bounds[:, 1:-1] = np.array(inner, dtype=np.int64).reshape(len(inner), stages - 1)
    bounds[:, -1] = layers
    filled = _filled(costs, choice, bounds)
    bounds, filled = bounds[filled <= 1.0], filled[filled <= 1.0]
    least = filled
    if aim.goal is not Goal.MEMORY:
        update_us = _update_us(costs, choice, bounds)
        if aim.goal is Goal.LATENCY and not costs.training and choice.overlaps:
            update_us = update_us + (stages - 1) * _run_us(costs, choice, bounds)
        least = aim.least(update_us, choice, _compile_s(costs, choice, bounds))
    return (
        (
            float(least[at]),
            tuple(np.repeat(np.arange(stages), np.diff(bounds[at])).tolist()),
        )
        for at in np.argsort(least, kind="stable")
    )


def _filled(costs: LayerCosts, choice: Choice, bounds: Ints) -> Floats:
    """Return how full the fullest tile is at least."""
    table, every = costs.bytes_of(choice), slice(0, len(costs.forward))
    used = [
        table(stage, every, every)[bounds[:, stage], bounds[:, stage + 1]]
        for stage in range(choice.stages)
    ]
    fullest: Floats = np.max(used, axis=0) / costs.room
    return fullest


def _update_us(costs: LayerCosts, choice: Choice, bounds: Ints) -> Floats:
    """Return the least time of a weight update with all its micro-batches."""
    around = costs.around
    run_us = _run_us(costs, choice, bounds)
    if costs.training:
        for layers_us in (around.reduced_us(choice), around.updated_us(choice)):
            sums = np.concatenate([[0.0], np.cumsum(layers_us)])
            run_us = run_us + _of_stages(sums, bounds).max(axis=1)
        run_us = run_us + around.loop_us
    return costs.with_host(run_us, choice)


def _run_us(costs: LayerCosts, choice: Choice, bounds: Ints) -> Floats:
    forward = _of_stages(costs.forward, bounds)
    backward = _of_stages(costs.backward, bounds)
    forward[:, 0] += costs.late_us(choice)
    first = forward[:, 0] + backward[:, 0]
    forward[:, 0] += np.maximum(costs.streamed_us(choice) - first, 0.0)
    copies = np.array(
        [own[bounds[:, at]] for at, own in enumerate(costs.copies_us(choice), 1)]
    )
    if not costs.training:
        # Executions have as many micro-batches as they like.
        if not choice.overlaps:
            return forward.sum(axis=1) + copies.sum(axis=0)
        return forward.max(axis=1) + copies.max(axis=0)
    schedule = ScheduleKind(choice.schedule)
    mode = automatic_recomputation(schedule) if choice.recompute else Recomputation.OFF
    again = _of_stages(costs.again, bounds)
    again[:, -1] = 0.0
    copy_us = copies.max(axis=0)
    if not choice.overlaps:
        copy_us = copies.sum(axis=0) / (2 * choice.stages)
    supersteps = find_supersteps(schedule, choice.stages, choice.accumulation, mode)
    return supersteps.times(forward, backward, again, copy_us)


def _compile_s(costs: LayerCosts, choice: Choice, bounds: Ints) -> Floats:
    """Return the time to compile: layers that are alike share it on one IPU only."""
    plans = costs.memory.plans[bounds[:, :-1], bounds[:, 1:]].sum(axis=1)
    more = plans - costs.memory.plans[0, -1]
    alone_s: Floats = costs.compile_s + costs.constants["compile_s_per_plan"] * more
    return alone_s * compile_share(choice.stages, costs.constants)


def _of_stages(sums: Floats, bounds: Ints) -> Floats:
    stages: Floats = sums[bounds[:, 1:]] - sums[bounds[:, :-1]]
    return stages
