"""How often the times of stages count in a pipeline run, whatever the cuts."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ipu_runtime.plan.balance.cutting import Bools
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind
from ipu_runtime.plan.schedule.stage_clock import find_supersteps
from workbench.optimizing.least_memory import Floats


class Rhythm(NamedTuple):
    """How often a run's times count at least, whatever each stage has of them.

    Between two synchronisations the slowest of the active stages decides, which is
    never less than their mean. So every pass of a stage counts with one over the number
    of stages that are active beside it; the stage with the smallest sum bounds what
    any sharing out of the layers can reach.
    """

    steps: float = 0.0
    full: float = 0.0
    """Steps in which every stage does all that it does."""
    forward: float = 0.0
    """Forward time of all stages, in the other steps."""
    backward: float = 0.0
    all_forward: float = 0.0
    """The same in all steps."""
    all_backward: float = 0.0
    only_forward: float = 0.0
    """In all steps, if stages that run backward are left out."""
    only_backward: float = 0.0


@lru_cache(maxsize=4096)
def find_rhythm(schedule: str, stages: int, count: int, again: bool) -> Rhythm:
    """Return it for a schedule; `again` tells whether stages recompute."""
    mode = Recomputation.THEN_BACKPROPAGATE if again else Recomputation.OFF
    supersteps = find_supersteps(ScheduleKind(schedule), stages, count, mode)
    full = (supersteps.forward.all(axis=1)) & (supersteps.backward.all(axis=1))
    if again:
        full &= supersteps.recompute[:, :-1].all(axis=1)
    both = (supersteps.forward + supersteps.backward) > 0

    def share(passes: Floats, active: Floats | Bools, counts: Floats) -> float:
        beside = np.maximum(active.sum(axis=1), 1)
        return float(((counts / beside) @ passes).min())

    rest = supersteps.counts * ~full
    return Rhythm(
        steps=float(supersteps.counts.sum()),
        full=float(supersteps.counts[full].sum()),
        forward=share(supersteps.forward, both, rest),
        backward=share(supersteps.backward, both, rest),
        all_forward=share(supersteps.forward, both, supersteps.counts),
        all_backward=share(supersteps.backward, both, supersteps.counts),
        only_forward=share(supersteps.forward, supersteps.forward, supersteps.counts),
        only_backward=share(
            supersteps.backward, supersteps.backward, supersteps.counts
        ),
    )
