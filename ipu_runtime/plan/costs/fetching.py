"""Time for what a stage uses and its tiles do not hold.

Streaming memory belongs to a machine, whose IPUs share its bandwidth. Weights that
replicas share are gathered over the links before every pass that uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ipu_runtime.plan.costs.links import all_gather_us
from ipu_runtime.plan.hardware import System
from ipu_runtime.plan.placements import Residency
from ipu_runtime.plan.request import PipelineRequest


class FetchedTime(NamedTuple):
    """What the passes of a stage wait for on every micro-batch."""

    forward_us: float = 0.0
    backward_us: float = 0.0
    again_us: float = 0.0
    """Of the forward pass that is done again."""

    @property
    def total_us(self) -> float:
        """All of a micro-batch."""
        return self.forward_us + self.backward_us + self.again_us


class StageBytes(NamedTuple):
    """What a stage has that may be elsewhere."""

    stash: int
    """Activations of a waiting micro-batch."""
    weights: int
    tensors: int
    """Weights that are gathered one by one."""
    trained: int
    state: int
    """What only the weight update needs."""


class Fetching(NamedTuple):
    """A pipeline's stages, and what they have to wait for."""

    pipeline: PipelineRequest
    residency: Residency
    stages: tuple[StageBytes, ...]
    replicas: int
    ipus: int
    """That a replica works on."""
    ipus_per_replica: int
    training: bool
    system: System
    constants: Mapping[str, float]

    def passes(self, again: Iterable[bool]) -> tuple[FetchedTime, ...]:
        """Return the times of every stage; `again` tells which are recomputed."""
        return tuple(
            self._pass(own, recomputed)
            for own, recomputed in zip(self.stages, again, strict=True)
        )

    def updates_us(self) -> tuple[float, ...]:
        """Return the time in which each stage's own is fetched, and sent back."""
        pipeline, residency = self.pipeline, self.residency
        shares = self.replicas if pipeline.shard_optimizer_state else 1
        times = []
        for own in self.stages:
            size = own.state / shares if pipeline.offload_optimizer_state else 0.0
            size += own.trained * (not residency.accumulators)
            size += own.weights / self.replicas if self._weights_away else 0.0
            times.append(self._streamed_us(2 * size, self._at_once))
        return tuple(times)

    @property
    def _weights_away(self) -> bool:
        return self.residency.gathers and self.pipeline.offload_weights

    @property
    def _at_once(self) -> int:
        """IPUs of a machine that want something at the same time."""
        return min(self.system.ipus_per_machine, self.replicas * self.ipus)

    def _pass(self, own: StageBytes, recomputed: bool) -> FetchedTime:
        sharing = min(self.system.ipus_per_machine, self.ipus)
        stash_us = 0.0
        if self.pipeline.offload_activations:
            stash_us = self._streamed_us(own.stash, sharing)
        weights_us, sums_us = self._gathered_us(own), 0.0
        if not self.residency.accumulators:
            sums_us = self._streamed_us(2 * own.trained, self._at_once)
        return FetchedTime(
            stash_us + weights_us,
            (stash_us + weights_us + sums_us) * self.training,
            weights_us * recomputed,
        )

    def _gathered_us(self, own: StageBytes) -> float:
        """Return the time in which a stage gets the weights of all its layers."""
        if not self.residency.gathers:
            return 0.0
        time = all_gather_us(
            own.weights,
            self.replicas,
            own.tensors,
            self.constants,
            self.ipus_per_replica,
        )
        if self._weights_away:
            time += self._streamed_us(own.weights / self.replicas, self._at_once)
        return time

    def _streamed_us(self, size: float, sharing: int) -> float:
        """Return the time of bytes to or from streaming memory, shared by so many."""
        return size * max(sharing, 1) / (self.system.ipu.remote_gb_s * 1e3)
