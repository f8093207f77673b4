"""Execute a pipeline run action by action, along the plan's own schedule.

One executor for all pipelines: stages made from Keras layers and stages that a
script passes to `pipelining_ops.pipeline` both implement `StagePrograms`. Activations
wait in a stash between a stage's forward and backward, and only there; actions of one
IPU run in the order of the schedule, IPUs run beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import tensorflow as tf

from ipu_runtime.plan.schedule.schedule import Action, Phase, Recomputation, Schedule

Tensors = list[Any]
"""Flat list of tensors; None where there is no gradient."""

_ORDER = (Phase.FORWARD, Phase.RECOMPUTE, Phase.BACKWARD)


class StagePrograms(Protocol):
    """What the stages of a pipeline can do; tensors go in and out as flat lists."""

    def forward(
        self, stage: int, micro_batch: int, inputs: Tensors
    ) -> tuple[Tensors, Tensors]:
        """Return the outputs, and what the backward pass needs from the forward."""

    def recompute(self, stage: int, micro_batch: int, inputs: Tensors) -> Tensors:
        """Return what the forward saved, again, without its side effects.

        Random draws must be those of the forward.
        """

    def backward(
        self, stage: int, micro_batch: int, saved: Tensors, output_gradients: Tensors
    ) -> tuple[Tensors, Tensors]:
        """Return gradients of the stage's inputs and of its variables.

        The last stage gets no output gradients: it starts from its own loss.
        """


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """What one pipeline run leaves behind."""

    outputs: tuple[Tensors, ...]
    """Outputs of the last stage, by micro-batch."""
    gradients: tuple[Tensors, ...]
    """Accumulated variable gradients, by stage; empty for inference."""
    peak_stash: tuple[int, ...]
    """Most micro-batches that waited at a stage at any time, its own included."""
    finished: Tensors
    """The last tensors of every IPU: whoever waits for them waits for the run."""


Combine = Callable[[Tensors | None, Tensors, int], Tensors]
"""Adds a micro-batch's gradients to what is accumulated: (so far, new, index)."""


def run_schedule(
    schedule: Schedule,
    stages: StagePrograms,
    feed: Callable[[int], Tensors],
    combine: Combine | None = None,
) -> PipelineRun:
    """Run every action of a schedule; `feed` gives the first stage's inputs."""
    run = _Run(schedule, stages, feed, combine or add_gradients)
    for slot in schedule.slots:
        for action in sorted(slot, key=lambda action: _ORDER.index(action.phase)):
            run.perform(action)
    return run.result()


def add_gradients(
    accumulated: Tensors | None, gradients: Tensors, micro_batch: int
) -> Tensors:
    """Sum gradients over micro-batches; a missing gradient counts as zero."""
    if accumulated is None:
        return list(gradients)
    return [
        new if old is None else old if new is None else old + new
        for old, new in zip(accumulated, gradients, strict=True)
    ]


class _Run:
    """The state of one pipeline run while its actions are performed."""

    def __init__(
        self,
        schedule: Schedule,
        stages: StagePrograms,
        feed: Callable[[int], Tensors],
        combine: Combine,
    ) -> None:
        self._schedule = schedule
        self._stages = stages
        self._feed = feed
        self._combine = combine
        self._last_stage = schedule.stages - 1
        self._sent: dict[tuple[int, int], Tensors] = {}
        self._stash: list[dict[int, Tensors]] = [{} for _ in range(schedule.stages)]
        self._recomputed: dict[tuple[int, int], Tensors] = {}
        self._returned: dict[tuple[int, int], Tensors] = {}
        self._gradients: list[Tensors | None] = [None] * schedule.stages
        self._outputs: dict[int, Tensors] = {}
        self._peak = [0] * schedule.stages
        self._done: dict[int, Sequence[Any]] = {}

    def perform(self, action: Action) -> None:
        """Perform an action after the previous one of the same IPU."""
        ipu = self._schedule.device_mapping[action.stage]
        after = [tensor for tensor in self._done.get(ipu, ()) if tf.is_tensor(tensor)]
        with tf.control_dependencies(after):
            if action.phase is Phase.FORWARD:
                self._done[ipu] = self._forward(action.stage, action.micro_batch)
            elif action.phase is Phase.RECOMPUTE:
                self._done[ipu] = self._recompute(action.stage, action.micro_batch)
            else:
                self._done[ipu] = self._backward(action.stage, action.micro_batch)

    def _forward(self, stage: int, micro_batch: int) -> Tensors:
        if stage == 0:
            inputs = self._feed(micro_batch)
        else:
            inputs = self._sent.pop((stage, micro_batch))
        outputs, saved = self._stages.forward(stage, micro_batch, inputs)
        if stage == self._last_stage:
            self._outputs[micro_batch] = outputs
        else:
            self._sent[stage + 1, micro_batch] = outputs
        if self._schedule.training:
            stash = self._stash[stage]
            stash[micro_batch] = inputs if self._recomputes(stage) else saved
            self._peak[stage] = max(self._peak[stage], len(stash))
        return outputs

    def _recompute(self, stage: int, micro_batch: int) -> Tensors:
        inputs = self._stash[stage][micro_batch]
        saved = self._stages.recompute(stage, micro_batch, inputs)
        self._recomputed[stage, micro_batch] = saved
        return saved

    def _backward(self, stage: int, micro_batch: int) -> Tensors:
        saved = self._stash[stage].pop(micro_batch)
        if self._recomputes(stage):
            if (stage, micro_batch) in self._recomputed:
                saved = self._recomputed.pop((stage, micro_batch))
            else:
                saved = self._stages.recompute(stage, micro_batch, saved)
        arriving = self._returned.pop((stage, micro_batch), [])
        to_inputs, to_variables = self._stages.backward(
            stage, micro_batch, saved, arriving
        )
        if stage > 0:
            self._returned[stage - 1, micro_batch] = to_inputs
        self._gradients[stage] = self._combine(
            self._gradients[stage], to_variables, micro_batch
        )
        return [*to_inputs, *to_variables]

    def _recomputes(self, stage: int) -> bool:
        """Tell whether a stage keeps its inputs only; the last one never does."""
        return (
            self._schedule.recomputation is not Recomputation.OFF
            and stage != self._last_stage
        )

    def result(self) -> PipelineRun:
        """Return what the run has left once every action is performed."""
        finished = [
            tensor
            for tensors in self._done.values()
            for tensor in tensors
            if tensor is not None
        ]
        return PipelineRun(
            tuple(self._outputs[index] for index in sorted(self._outputs)),
            tuple(gradients or [] for gradients in self._gradients),
            tuple(self._peak),
            finished,
        )
