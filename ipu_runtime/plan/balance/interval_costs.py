"""Costs of every run of neighbouring layers, ready for dynamic programming."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ipu_runtime.plan.balance.balance_types import BalanceRequest, Candidate
from ipu_runtime.plan.schedule.building import fifo_depths
from ipu_runtime.plan.schedule.schedule import Recomputation
from ipu_runtime.plan.schedule.stage_clock import Supersteps, find_supersteps

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def _sums(values: tuple[float, ...], count: int) -> Floats:
    """Return prefix sums; nothing given counts as zeros."""
    filled = np.asarray(values, dtype=np.float64) if values else np.zeros(count)
    return np.concatenate([[0.0], np.cumsum(filled)])


@dataclass(frozen=True, slots=True, eq=False)
class IntervalCosts:
    """Prefix sums of a request, from which any interval's cost follows."""

    request: BalanceRequest
    forward: Floats
    backward: Floats
    recompute: Floats
    resident: Floats
    stash: Floats
    working: Floats
    incoming: Floats
    """Bytes that enter a stage which starts at each position."""
    incoming_us: Floats
    """Time to receive them, by stage and position."""
    depths: Ints
    """Micro-batches that wait at each stage, never more than there are."""

    @classmethod
    def of(cls, request: BalanceRequest) -> IntervalCosts:
        """Prepare a request."""
        count = request.layers
        crossing = np.zeros(count + 1)
        if request.crossing_bytes:
            crossing[1:] = request.crossing_bytes
        crossing[0] = crossing[count] = 0.0
        copies = np.zeros((request.stages, count + 1))
        if request.copy_us is not None:
            sizes = crossing[1:count].tolist()
            for stage in range(1, request.stages):
                copies[stage, 1:count] = [request.copy_us(s, stage) for s in sizes]
        incoming = crossing.copy()
        incoming[0] = request.input_bytes
        recomputes = request.recomputation is not Recomputation.OFF
        again = (request.recompute_us or request.forward_us) if recomputes else ()
        depths = np.array(fifo_depths(request.schedule, request.stages, True))
        working = np.asarray(request.working_bytes or np.zeros(count), dtype=float)
        return cls(
            request=request,
            forward=_sums(request.forward_us, count),
            backward=_sums(request.backward_us, count),
            recompute=_sums(again, count),
            resident=_sums(request.resident_bytes, count),
            stash=_sums(request.stash_bytes, count),
            working=working,
            incoming=incoming,
            incoming_us=copies,
            depths=np.minimum(depths, max(request.micro_batches - 1, 0)),
        )

    def working_matrix(self) -> Floats:
        """Return the largest working set within the interval [i, j)."""
        count = len(self.working)
        matrix = np.zeros((count + 1, count + 1))
        for start in range(count):
            matrix[start, start + 1 :] = np.maximum.accumulate(self.working[start:])
        return matrix

    def memory_table(self, stage: int, starts: slice, ends: slice) -> Floats:
        """Return a stage's bytes for every start and end, without working sets."""
        depth = 0 if self.request.offload_activations else int(self.depths[stage])
        per_layer = self.resident + self.stash
        before = per_layer
        if self._keeps_inputs_only(stage):
            before = per_layer - depth * self.incoming
        else:
            per_layer = per_layer + depth * self.stash
            before = per_layer
        before = before - self.request.fixed_bytes
        table: Floats = per_layer[None, ends] - before[starts, None]
        return table

    def _keeps_inputs_only(self, stage: int) -> bool:
        recomputes = self.request.recomputation is not Recomputation.OFF
        return recomputes and stage < self.request.stages - 1

    def stage_bytes(self, bounds: Ints) -> Floats:
        """Return the bytes of every stage of every row of boundaries."""
        starts, ends = bounds[:, :-1], bounds[:, 1:]
        stages = self.request.stages
        depths = np.zeros(stages) if self.request.offload_activations else self.depths
        stash = self.stash[ends] - self.stash[starts]
        waiting = depths * stash
        inputs_only = [self._keeps_inputs_only(stage) for stage in range(stages)]
        if any(inputs_only):
            waiting = np.where(inputs_only, depths * self.incoming[starts], waiting)
        result: Floats = self.resident[ends] - self.resident[starts] + stash + waiting
        if self.request.working_bytes:
            result = result + self._largest_working(starts, ends)
        return result + self.request.fixed_bytes

    def _largest_working(self, starts: Ints, ends: Ints) -> Floats:
        # Consecutive intervals cover all layers, so one reduceat serves a whole row.
        rows = [np.maximum.reduceat(self.working, row) for row in starts]
        return np.array(rows)

    def stage_times(self, bounds: Ints) -> tuple[Floats, Floats, Floats]:
        """Return forward, backward and recomputation time per stage and row."""
        starts, ends = bounds[:, :-1], bounds[:, 1:]
        again = self.recompute[ends] - self.recompute[starts]
        again[:, -1] = 0.0
        return (
            self.forward[ends] - self.forward[starts],
            self.backward[ends] - self.backward[starts],
            again,
        )

    def run_times(self, bounds: Ints) -> Floats:
        """Return the time of one pipeline run of every row of boundaries."""
        times, copies = self.stage_times(bounds), self._copies(bounds)
        return self.supersteps.times(*times, copies.max(axis=1))

    @property
    def supersteps(self) -> Supersteps:
        """How stages of the request take turns."""
        request = self.request
        return find_supersteps(
            request.schedule,
            request.stages,
            request.micro_batches,
            request.recomputation,
            request.clock,
        )

    def _copies(self, bounds: Ints) -> Floats:
        stages = np.arange(self.request.stages)
        copies: Floats = self.incoming_us[stages, bounds[:, :-1]]
        return copies

    def bottlenecks(self, bounds: Ints) -> Floats:
        """Return the slowest stage's time of every row of boundaries."""
        total = np.sum(self.stage_times(bounds), axis=0)
        slowest: Floats = (total + self._copies(bounds)).max(axis=1)
        return slowest

    def candidate(self, bounds: Ints) -> Candidate:
        """Return one partition with its figures."""
        row = bounds[None, :]
        stage_us = np.sum(self.stage_times(row), axis=0)[0]
        stage_bytes = self.stage_bytes(row)[0]
        return Candidate(
            stage_of_layer=tuple(
                np.repeat(np.arange(len(bounds) - 1), np.diff(bounds)).tolist()
            ),
            step_time_us=float(self.run_times(row)[0]),
            bottleneck_us=float(self.bottlenecks(row)[0]),
            peak_bytes=float(stage_bytes.max()),
            crossing_bytes=float(self.incoming[bounds[1:-1]].sum()),
            stage_us=tuple(stage_us.tolist()),
            stage_bytes=tuple(stage_bytes.tolist()),
        )
