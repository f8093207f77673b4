"""Memory over the steps of a program: what the figure of a plan is the maximum of.

Planning keeps only the fullest moment of every stage. Who asks for the walk gets all of
them, from the same stages and the same moments (`liveness.Stage`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipu_runtime.plan.memory.liveness import Alive, Moments, Stage, walked_stages
from ipu_runtime.plan.memory.memory_plan import MemoryRequest
from ipu_runtime.plan.plan import IpuMemory


@dataclass(frozen=True, slots=True)
class WalkStep:
    """Bytes of an IPU while one layer runs, besides what is always live."""

    name: str
    """forward, recomputation, backward or update."""
    stage: int
    layer: str
    tensor_bytes: int
    temporary_bytes: int
    """Of the matrix unit's plans."""

    @property
    def bytes(self) -> int:
        """What there is together."""
        return self.tensor_bytes + self.temporary_bytes


@dataclass(frozen=True, slots=True)
class MemoryWalk:
    """Modelled memory of one IPU over the steps of its program, summed over tiles."""

    memory: IpuMemory
    steps: tuple[WalkStep, ...]
    """Of one micro-batch through every stage of the IPU, and the weight update."""
    alive: tuple[Alive, ...]
    """What there is at the peak besides what is always live, the largest first."""

    @property
    def peak(self) -> int:
        """Index of the fullest step."""
        return max(range(len(self.steps)), key=lambda at: self.steps[at].bytes)

    @property
    def totals(self) -> tuple[int, ...]:
        """Bytes of every step, what is always live included."""
        always = self.memory.always_live_bytes
        return tuple(always + step.bytes for step in self.steps)


def walk_stages(
    request: MemoryRequest, memories: tuple[IpuMemory, ...], scale: float
) -> tuple[MemoryWalk, ...]:
    """Return the walk of every IPU that has a stage."""
    found = walked_stages(request.work, request.stage_of_layer, request.checkpointed)
    stages = dict(enumerate(found))
    return tuple(
        _walk(
            {
                number: stage
                for number, stage in stages.items()
                if stage is not None and request.mapping[number] == memory.ipu
            },
            request,
            memory,
            scale,
        )
        for memory in memories
    )


def _walk(
    stages: dict[int, Stage], request: MemoryRequest, memory: IpuMemory, scale: float
) -> MemoryWalk:
    kept = {number: stage.fullest().kept_bytes for number, stage in stages.items()}
    moments = {number: stage.moments() for number, stage in stages.items()}
    steps: list[WalkStep] = []
    places: list[tuple[int, str, int]] = []

    def take(number: int, found: Moments, at: int) -> None:
        others = sum(kept.values()) - kept[number]
        steps.append(
            WalkStep(
                found.name,
                number,
                stages[number].layers[at].layer.name,
                int((int(found.live[at]) + others) * scale),
                int(int(found.temporaries[at]) * scale),
            )
        )
        places.append((number, found.name, at))

    for number, (forward, *_) in moments.items():
        for at in range(len(forward.live)):
            take(number, forward, at)
    for number, (_, *backward) in reversed(moments.items()):
        for found, at in _back(stages[number], backward):
            take(number, found, at)
    if request.work.cost.training:
        merged = int(request.merged_bytes(memory.ipu) * scale) * request.accumulates
        steps.append(WalkStep("update", 0, "", 0, merged))
    walk = MemoryWalk(memory, tuple(steps), ())
    if walk.peak == len(places):
        only = Alive("gradients", "merged sums", float(steps[-1].bytes))
        return MemoryWalk(memory, walk.steps, (only,))
    number, name, at = places[walk.peak]
    alive = stages[number].alive(name, at)
    alive += [
        Alive(f"stage {other}", "kept", float(size))
        for other, size in kept.items()
        if other != number and size
    ]
    scaled = [item._replace(size=item.size * scale) for item in alive]
    scaled.sort(key=lambda item: -item.size)
    return MemoryWalk(memory, walk.steps, tuple(scaled))


def _back(stage: Stage, passes: list[Moments]) -> list[tuple[Moments, int]]:
    """Order the backward pass; each segment's activations are made again before it."""
    if not passes:
        return []
    backward, *again = passes
    order: list[tuple[Moments, int]] = []
    for segment in range(int(stage.segments[-1]), -1, -1):
        layers = np.flatnonzero(stage.segments == segment).tolist()
        straight = stage.ends_model and segment == stage.segments[-1]
        for found in again * (not straight):
            order += [(found, at) for at in layers]
        order += [(backward, at) for at in reversed(layers)]
    return order
