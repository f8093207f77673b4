"""Time of a pipeline run for many partitions at once, one IPU per stage."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ipu_runtime.plan.schedule.building import start_steps, steady_part
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind
from ipu_runtime.plan.schedule.timeline import Clock

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_CHUNK = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Supersteps:
    """Which stages are active between two synchronisations, and how often."""

    counts: Floats
    forward: Floats
    """1 where a stage runs forward; one row per pattern."""
    backward: Floats
    recompute: Floats

    def times(
        self, forward: Floats, backward: Floats, recompute: Floats, copy_us: Floats
    ) -> Floats:
        """Return the time of one run per row of the stage times."""
        patterns, stages = self.forward.shape
        rows = max(1, _CHUNK // (patterns * stages))
        result = np.empty(len(forward))
        for first in range(0, len(forward), rows):
            part = slice(first, first + rows)
            busy = forward[part, None, :] * self.forward
            if self.backward.any():
                busy += backward[part, None, :] * self.backward
            if self.recompute.any():
                busy += recompute[part, None, :] * self.recompute
            result[part] = busy.max(axis=2) @ self.counts
        total: Floats = result + copy_us * self.counts.sum()
        return total


@lru_cache(maxsize=32)
def find_supersteps(
    kind: ScheduleKind,
    stages: int,
    micro_batches: int,
    recomputation: Recomputation = Recomputation.OFF,
    clock: Clock = Clock.STEP,
    training: bool = True,
) -> Supersteps:
    """Return the distinct patterns of activity of a run."""
    mapping = range(stages)
    steady = steady_part(kind, micro_batches, mapping, training)
    starts = start_steps(kind, steady.shortest, mapping, training)
    steps = int(starts[-1]) + (2 * stages if training else stages)
    active = np.zeros((3, steps, stages), dtype=bool)
    often = np.ones(steps)
    often[steady.first : steady.first + steady.steps] = steady.times
    stage = np.arange(stages)
    active[0, starts[:, None] + stage, stage] = True
    if training:
        active[1, starts[:, None] + 2 * stages - 1 - stage, stage] = True
        if recomputation is Recomputation.THEN_BACKPROPAGATE:
            early = stage[:-1]
            active[2, starts[:, None] + 2 * stages - 2 - early, early] = True
    if clock is Clock.SLOT and kind is ScheduleKind.GROUPED:
        backward_slots = active * np.array([0, 1, 0], dtype=bool)[:, None, None]
        forward_slots = active * np.array([1, 0, 1], dtype=bool)[:, None, None]
        active = np.concatenate([backward_slots, forward_slots], axis=1)
        used = active.any(axis=(0, 2))
        active, often = active[:, used], np.tile(often, 2)[used]
    flat = np.concatenate(list(active), axis=1)
    patterns, counts = _distinct_rows(flat, often)
    if recomputation is Recomputation.WITH_BACKPROPAGATE and training:
        # Merged into the backward pass, except where activations are still there.
        patterns[:, 2 * stages : 3 * stages - 1] = patterns[:, stages : 2 * stages - 1]
    return Supersteps(
        counts,
        patterns[:, :stages],
        patterns[:, stages : 2 * stages],
        patterns[:, 2 * stages :],
    )


def _distinct_rows(rows: Bools, often: Floats) -> tuple[Floats, Floats]:
    packed = np.packbits(rows, axis=1)
    keys = packed.view([("", packed.dtype)] * packed.shape[1]).ravel()
    _, first, kind = np.unique(keys, return_index=True, return_inverse=True)
    return rows[first].astype(np.float64), np.bincount(kind, often).astype(np.float64)
