"""Keras stages as the pipeline executor wants them: state goes from call to call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.pipeline.schedule_executor import Tensors
from ipu_runtime.engine.build.pipeline.stage_functions import StageFunctions
from ipu_runtime.engine.build.programs.gradient_capture import Captured, capturing
from ipu_runtime.engine.build.programs.micro_batch import Carry
from ipu_runtime.frameworks.keras_state import stored


@dataclass(frozen=True)
class Saved:
    """What the backward pass of a stage needs."""

    tape: Any
    inputs: Tensors
    outputs: Tensors


class KerasStages:
    """Stages of one replica in one pipeline run.

    Statistics are updated by forward passes alone, in the order of micro-batches.
    """

    def __init__(
        self,
        functions: StageFunctions,
        carry: Carry,
        replica: Any,
        counter: Callable[[int], Any],
        around_action: Callable[[], AbstractContextManager[Any]] = nullcontext,
        after_last: Callable[[int, Carry], None] = lambda micro_batch, carry: None,
    ) -> None:
        self.carry = carry
        self._functions = functions
        self._replica = replica
        self._counter = counter
        self._around_action = around_action
        self._after_last = after_last
        self.captured: dict[int, Captured] = {}
        """Captured gradients of all stages, by micro-batch."""
        self._structures: dict[int, Any] = {}
        self._carries: dict[tuple[int, int], Carry] = {}

    def enter(self, data: Any) -> Tensors:
        """Return the first stage's inputs for a batch."""
        return self._flatten(0, self._functions.enter(data))

    def forward(
        self, stage: int, micro_batch: int, inputs: Tensors
    ) -> tuple[Tensors, Tensors]:
        """Run the stage; its tape is what the backward pass needs."""
        self._carries[stage, micro_batch] = self.carry
        with self._around_action():
            outputs, saved, self.carry = self._run(
                stage, micro_batch, inputs, self.carry
            )
        if stage + 1 == self._functions.count:
            self._after_last(micro_batch, self.carry)
        return outputs, saved

    def recompute(self, stage: int, micro_batch: int, inputs: Tensors) -> Tensors:
        """Run the stage again as it was run forward, without keeping statistics."""
        carry = self._carries[stage, micro_batch]
        with self._around_action():
            return self._run(stage, micro_batch, inputs, carry)[1]

    def backward(
        self, stage: int, micro_batch: int, saved: Tensors, output_gradients: Tensors
    ) -> tuple[Tensors, Tensors]:
        """Return the gradients of the stage's inputs and weights."""
        self._carries.pop((stage, micro_batch), None)
        kept: Saved = saved[0]
        weights = [stored(weight) for weight in self._functions.weights[stage]]
        if stage + 1 == self._functions.count:
            targets, arriving = kept.outputs, None
        else:
            pairs = [
                (output, gradient)
                for output, gradient in zip(kept.outputs, output_gradients, strict=True)
                if gradient is not None
            ]
            targets = [output for output, _ in pairs]
            arriving = [gradient for _, gradient in pairs]
        if not targets:
            return [None] * len(kept.inputs), [None] * len(weights)
        with self._around_action(), capturing() as sink:
            to_inputs, to_weights = kept.tape.gradient(
                targets, (kept.inputs, weights), arriving
            )
        self.captured.setdefault(micro_batch, {}).update(sink.gradients)
        observed = self._functions.micro_batch.observed
        observed.observe(self._functions.weights[stage], to_weights)
        observed.observe_captured(sink.gradients)
        return to_inputs, to_weights

    def _run(
        self, stage: int, micro_batch: int, inputs: Tensors, carry: Carry
    ) -> tuple[Tensors, Tensors, Carry]:
        last = stage + 1 == self._functions.count
        if self._functions.phase != "train":
            result, carry = self._call(stage, micro_batch, inputs, carry)
            return self._flatten(stage + 1, result), [], carry
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([item for item in inputs if item.dtype.is_floating])
            tape.watch([stored(weight) for weight in self._functions.weights[stage]])
            result, carry = self._call(stage, micro_batch, inputs, carry)
        outputs = [result] if last else self._flatten(stage + 1, result)
        return outputs, [Saved(tape, inputs, outputs), *outputs], carry

    def _call(
        self, stage: int, micro_batch: int, inputs: Tensors, carry: Carry
    ) -> tuple[Any, Carry]:
        crossing = tf.nest.pack_sequence_as(
            self._structures[stage],
            _with_nones(self._structures[stage], inputs),
        )
        return self._functions.forward(
            stage, crossing, carry, self._replica, self._counter(micro_batch)
        )

    def _flatten(self, stage: int, crossing: Any) -> Tensors:
        self._structures[stage] = crossing
        return [item for item in tf.nest.flatten(crossing) if item is not None]


def _with_nones(structure: Any, tensors: Tensors) -> list[Any]:
    remaining = iter(tensors)
    return [
        None if item is None else next(remaining) for item in tf.nest.flatten(structure)
    ]
