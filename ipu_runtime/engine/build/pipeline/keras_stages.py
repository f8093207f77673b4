"""The stages of a Keras model, as the schedule's executor wants them.

[Note: Stage functions]
The forward pass of a stage is one TensorFlow function; its backward pass is
TensorFlow's own gradient of it. What that needs from the forward pass is held by a
tape, which waits with it in the activation stash. What must hold:

- A stage function is not inlined (`_noinline`): so a stage runs when the schedule says,
  and TensorFlow's common subexpression elimination does not find that a recomputed
  stage equals its forward pass. Layers that capture gradients are the exception: a
  `custom_gradient` inside of a function cannot reach the scope outside of it.
- A function depends on nothing but its arguments and weights: random draws are keyed by
  micro-batch (see `micro_batch.py`), moving statistics and metrics go in and come out.
  So running it again gives the same activations.
- Only the statistics of a stage's own layers go into its function, so that stages wait
  for activations alone; metrics go into the last stage's.
- Statistics change in forward passes, in the order of micro-batches, and never in a
  recomputation: `recompute` drops the state that it has made.
- Masks travel beside values: Keras has a mask as an attribute of a tensor, and what a
  function returns are other tensors. Losses that layers add travel to the last stage.
- A tape watches the stage's inputs and weights only. The last stage starts from the
  loss; others from the gradients that the next stage returns, where there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.pipeline.pooling_gradient import pooled_again
from ipu_runtime.engine.build.pipeline.schedule_executor import Tensors
from ipu_runtime.engine.build.programs.gradient_capture import (
    Captured,
    captures_gradients,
    capturing,
)
from ipu_runtime.engine.build.programs.micro_batch import LoopState, MicroBatch
from ipu_runtime.engine.describe.model_graph import Call, ModelGraph
from ipu_runtime.engine.describe.pipeline_cut import Cut
from ipu_runtime.frameworks.keras_api import unpack_x_y_sample_weight
from ipu_runtime.frameworks.keras_calls import mask_of, set_mask
from ipu_runtime.frameworks.keras_state import stored
from ipu_runtime.frameworks.keras_training import add_loss
from ipu_runtime.frameworks.private_names import NOT_INLINED
from ipu_runtime.frameworks.tensorflow_graphs import traced
from ipu_runtime.frameworks.types import Structure, Tensor, Variable

Crossing = dict[str, Any]
"""What travels from stage to stage: values, their masks, losses so far, targets."""


class StageFunctions:
    """Forward functions of all stages, for training, testing or predicting."""

    def __init__(
        self, micro_batch: MicroBatch, graph: ModelGraph, cut: Cut, phase: str
    ) -> None:
        self.micro_batch = micro_batch
        self.count = len(cut.stages)
        self.phase = phase
        self._graph = graph
        self._stages = cut.stages
        self._boundaries = _boundaries(graph, cut.stages)
        self._own_statistics = [
            _used_by(calls, micro_batch.statistics.variables) for calls in cut.stages
        ]
        self._functions = [
            self._forward_of(stage)
            if any(captures_gradients(call.operation) for call in calls)
            else traced(
                self._forward_of(stage),
                experimental_attributes={NOT_INLINED: True},
            )
            for stage, calls in enumerate(cut.stages)
        ]
        self.weights = [self._weights_of(stage) for stage in range(self.count)]

    @property
    def network(self) -> Any:
        """The model as Keras' graph of layer calls."""
        return self._graph.network

    def enter(self, data: Structure) -> Crossing:
        """Return what a batch brings to the first stage."""
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        inputs = dict(zip(self._graph.inputs, self._graph.flat_inputs(x), strict=True))
        return {
            "values": [inputs[slot] for slot in self._boundaries[0]],
            "masks": [None for _ in self._boundaries[0]],
            "losses": [],
            "targets": None if self.phase == "predict" else (y, sample_weight),
            "x": x if self.phase != "predict" and self._needs_x() else None,
        }

    def forward(
        self,
        stage: int,
        crossing: Crossing,
        state: LoopState,
        replica: Tensor,
        counter: Tensor,
    ) -> tuple[Any, LoopState]:
        """Return what goes on to the next stage (the last returns loss or outputs).

        Only the state that the stage uses goes into its function, so that stages wait
        for each other's activations alone.
        """
        own = self._own_statistics[stage]
        last = stage + 1 == self.count
        outputs, statistics, metrics = self._functions[stage](
            crossing,
            tuple(state.statistics[index] for index in own),
            state.metrics if last else (),
            replica,
            counter,
        )
        merged = list(state.statistics)
        for index, value in zip(own, statistics, strict=True):
            merged[index] = value
        return outputs, LoopState(
            tuple(merged), tuple(metrics) if last else state.metrics
        )

    def _forward_of(self, stage: int) -> Callable[..., Any]:
        statistics_state = self.micro_batch.statistics.part(self._own_statistics[stage])
        metrics_state = self.micro_batch.metrics.part(
            range(len(self.micro_batch.metrics.variables))
            if stage + 1 == self.count
            else ()
        )

        def forward(
            crossing: Crossing,
            statistics: tuple[Tensor, ...],
            metrics: tuple[Tensor, ...],
            replica: Tensor,
            counter: Tensor,
        ) -> Any:
            mapping = statistics_state.of_replica(statistics, replica)
            mapping += metrics_state.of_replica(metrics, replica)
            with (
                self.micro_batch.keyed_scope(mapping, replica, counter) as scope,
                pooled_again(),
            ):
                values = self._entered(stage, crossing)
                self._graph.run(
                    self._stages[stage],
                    values,
                    self.phase == "train",
                    lambda call: self.micro_batch.keys.before_call(
                        scope, call, counter
                    ),
                )
                if stage + 1 < self.count:
                    outputs: Any = self._leaving(stage, values, crossing, scope)
                else:
                    outputs = self._finished(values, crossing, scope)
            return (
                outputs,
                statistics_state.updated(statistics, replica, scope),
                metrics_state.updated(metrics, replica, scope),
            )

        forward.__name__ = f"stage_{stage}"
        return forward

    def _entered(self, stage: int, crossing: Crossing) -> dict[int, Any]:
        for value, mask in zip(crossing["values"], crossing["masks"], strict=True):
            if mask is not None:
                set_mask(value, mask)
        return dict(zip(self._boundaries[stage], crossing["values"], strict=True))

    def _leaving(
        self, stage: int, values: dict[int, Any], crossing: Crossing, scope: Any
    ) -> Crossing:
        leaving = [values[slot] for slot in self._boundaries[stage + 1]]
        return crossing | {
            "values": leaving,
            "masks": [mask_of(value) for value in leaving],
            "losses": [*crossing["losses"], *scope.losses],
        }

    def _finished(self, values: dict[int, Any], crossing: Crossing, scope: Any) -> Any:
        y_pred = self._graph.pack_outputs(values)
        if self.phase == "predict":
            return y_pred
        model = self.micro_batch.model
        for loss in crossing["losses"]:
            add_loss(model, scope, loss)
        training = self.phase == "train"
        y, sample_weight = crossing["targets"]
        x = crossing["x"] if crossing["x"] is not None else y_pred
        loss = self.micro_batch.loss(scope, x, y, y_pred, sample_weight, training)
        self.micro_batch.update_metrics(loss, x, y, y_pred, sample_weight)
        return self.micro_batch.scaled(loss) if training else loss

    def _needs_x(self) -> bool:
        """Whether the model's loss or metrics look at the inputs."""
        from ipu_runtime.frameworks.keras_api import Model

        kind = type(self.micro_batch.model)
        return (
            kind.compute_loss is not Model.compute_loss
            or kind.compute_metrics is not Model.compute_metrics
        )

    def _weights_of(self, stage: int) -> list[Any]:
        """Return the trainable weights that the stage's gradient depends on."""
        used = {
            id(weight)
            for call in self._stages[stage]
            for weight in getattr(call.operation, "trainable_weights", ())
        }
        last = stage + 1 == self.count
        return [
            weight
            for weight in self.micro_batch.model.trainable_weights
            if id(weight) in used
            or (last and getattr(weight, "regularizer", None) is not None)
        ]


def _used_by(calls: Sequence[Call], variables: Sequence[Variable]) -> list[int]:
    """Return which of the variables belong to the layers that are called."""
    used = {
        id(variable)
        for call in calls
        for variable in getattr(call.operation, "non_trainable_variables", ())
    }
    return [index for index, item in enumerate(variables) if id(item) in used]


def _boundaries(
    graph: ModelGraph, stages: Sequence[Sequence[Call]]
) -> list[tuple[int, ...]]:
    """Return the values that each stage gets: all that it or a later one needs."""
    needed_by = [{slot for call in calls for slot in call.inputs} for calls in stages]
    needed_by[-1] |= set(graph.outputs)
    made: list[int] = list(graph.inputs)
    boundaries = []
    for stage, calls in enumerate(stages):
        later = set().union(*needed_by[stage:])
        boundaries.append(tuple(slot for slot in made if slot in later))
        made.extend(slot for call in calls for slot in call.outputs)
    return boundaries


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
        state: LoopState,
        replica: Tensor,
        counter: Callable[[int], Any],
        around_action: Callable[[], AbstractContextManager[Any]] = nullcontext,
        after_last: Callable[[int, LoopState], None] = lambda micro_batch, state: None,
    ) -> None:
        self.state = state
        self._functions = functions
        self._replica = replica
        self._counter = counter
        self._around_action = around_action
        self._after_last = after_last
        self.captured: dict[int, Captured] = {}
        """Captured gradients of all stages, by micro-batch."""
        self._structures: dict[int, Any] = {}
        self._states: dict[tuple[int, int], LoopState] = {}

    def enter(self, data: Structure) -> Tensors:
        """Return the first stage's inputs for a batch."""
        return self._flatten(0, self._functions.enter(data))

    def forward(
        self, stage: int, micro_batch: int, inputs: Tensors
    ) -> tuple[Tensors, Tensors]:
        """Run the stage; its tape is what the backward pass needs."""
        self._states[stage, micro_batch] = self.state
        with self._around_action():
            outputs, saved, self.state = self._run(
                stage, micro_batch, inputs, self.state
            )
        if stage + 1 == self._functions.count:
            self._after_last(micro_batch, self.state)
        return outputs, saved

    def recompute(self, stage: int, micro_batch: int, inputs: Tensors) -> Tensors:
        """Run the stage again as it was run forward, without keeping statistics."""
        state = self._states[stage, micro_batch]
        with self._around_action():
            return self._run(stage, micro_batch, inputs, state)[1]

    def backward(
        self, stage: int, micro_batch: int, saved: Tensors, output_gradients: Tensors
    ) -> tuple[Tensors, Tensors]:
        """Return the gradients of the stage's inputs and weights."""
        self._states.pop((stage, micro_batch), None)
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
        with self._around_action(), capturing() as captures:
            to_inputs, to_weights = kept.tape.gradient(
                targets, (kept.inputs, weights), arriving
            )
        self.captured.setdefault(micro_batch, {}).update(captures.gradients)
        observed = self._functions.micro_batch.observed
        observed.observe(self._functions.weights[stage], to_weights)
        observed.observe_captured(captures.gradients)
        return to_inputs, to_weights

    def _run(
        self, stage: int, micro_batch: int, inputs: Tensors, state: LoopState
    ) -> tuple[Tensors, Tensors, LoopState]:
        last = stage + 1 == self._functions.count
        if self._functions.phase != "train":
            result, state = self._call(stage, micro_batch, inputs, state)
            return self._flatten(stage + 1, result), [], state
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch([item for item in inputs if item.dtype.is_floating])
            tape.watch([stored(weight) for weight in self._functions.weights[stage]])
            result, state = self._call(stage, micro_batch, inputs, state)
        outputs = [result] if last else self._flatten(stage + 1, result)
        return outputs, [Saved(tape, inputs, outputs), *outputs], state

    def _call(
        self, stage: int, micro_batch: int, inputs: Tensors, state: LoopState
    ) -> tuple[Any, LoopState]:
        crossing = tf.nest.pack_sequence_as(
            self._structures[stage],
            _with_nones(self._structures[stage], inputs),
        )
        return self._functions.forward(
            stage, crossing, state, self._replica, self._counter(micro_batch)
        )

    def _flatten(self, stage: int, crossing: Any) -> Tensors:
        self._structures[stage] = crossing
        return [item for item in tf.nest.flatten(crossing) if item is not None]


def _with_nones(structure: Any, tensors: Tensors) -> list[Any]:
    remaining = iter(tensors)
    return [
        None if item is None else next(remaining) for item in tf.nest.flatten(structure)
    ]
