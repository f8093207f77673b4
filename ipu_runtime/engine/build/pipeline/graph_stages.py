"""Stages that a script states as Python functions, traced into TensorFlow functions.

Every stage is traced once. Its forward function returns what the backward function
needs; with recomputation there is a third one, which computes that from the stage's
inputs again, with the random numbers and statistics of the forward pass.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.pipeline.pooling_gradient import pooled_again
from ipu_runtime.engine.build.pipeline.schedule_executor import Tensors
from ipu_runtime.engine.build.programs.gradient_capture import Captured, capturing
from ipu_runtime.engine.build.replicas.replica_variables import (
    ReplicaVariables,
    written_handles,
)
from ipu_runtime.engine.build.replicas.replication import replicate
from ipu_runtime.engine.build.tracing_context import counted_by
from ipu_runtime.frameworks.tensorflow_graphs import (
    FuncGraph,
    called_function,
    gradients_across,
)

logger = logging.getLogger("tensorflow")

_SEEN_OUTSIDE = ("PrintV2", "PyFunc", "QueueEnqueueV2")
"""Operations of a stage that run even if nothing needs what they return."""


@dataclass(frozen=True)
class TracedStage:
    """The graph of a stage before functions are made of it."""

    graph: Any
    arguments: int
    """Inputs that are not captured; the last is the number of the micro-batch."""
    outputs: int

    @property
    def handles(self) -> list[Any]:
        """The variables that the stage captures, as its own inputs."""
        return list(self.graph.inputs[self.arguments :])


def trace_stage(
    index: int, function: Callable[..., Sequence[Any]], arguments: Sequence[Any]
) -> TracedStage:
    """Trace a stage; only variables and other resources may be captured."""
    graph = FuncGraph(f"stage_{index}")
    with graph.as_default(), pooled_again():
        for argument in arguments:
            placeholder = tf.compat.v1.placeholder(argument.dtype, argument.shape)
            graph.inputs.append(placeholder)
        number = tf.compat.v1.placeholder(tf.int32, [], name="micro_batch")
        graph.inputs.append(number)
        with counted_by(number):
            outputs = function(*graph.inputs[: len(arguments)])
        graph.outputs = [tf.identity(output) for output in outputs]
    graph.control_outputs = [
        item for item in graph.get_operations() if item.type in _SEEN_OUTSIDE
    ]
    if graph.get_collection(tf.compat.v1.GraphKeys.SUMMARIES):
        logger.warning(
            "Summaries of stage %d are not written: return the values from the last "
            "stage and summarize what the outfeed delivers",
            index,
        )
    for outer, _ in graph.captures:
        if outer.dtype not in (tf.resource, tf.variant):
            raise ValueError(
                f"Trying to capture the tensor {outer} in stage {index}, which is not "
                "a resource. Pass it through `inputs` or the infeed queue."
            )
    return TracedStage(graph, len(arguments) + 1, len(graph.outputs))


class GraphStageFunctions:
    """The functions of one stage, and what goes between them."""

    def __init__(
        self,
        stage: TracedStage,
        loss: Any,
        variables: Sequence[Any],
        training: bool,
        recomputes: bool,
    ) -> None:
        self._stage = stage
        self._outer = {inner.name: outer for outer, inner in stage.graph.captures}
        self._captured = list(stage.graph.external_captures)
        self.variables: list[Any] = []
        self._saved: list[Any] = []
        self._kept: list[Any] = []
        if training:
            self._build_backward(loss, variables)
        if recomputes:
            self._kept = _not_repeatable(stage)
            self._build_recompute()
        stage.graph.outputs = [
            *stage.graph.outputs[: stage.outputs],
            *self._saved,
            *self._kept,
        ]
        self._forward = called_function(stage.graph)

    def forward(self, inputs: Tensors) -> tuple[Tensors, Tensors, Tensors]:
        """Return outputs, what the backward needs, and what a second run needs."""
        results = list(self._forward.call_flat(*inputs, *self._captured))
        first, second = self._stage.outputs, self._stage.outputs + len(self._saved)
        return results[:first], results[first:second], results[second:]

    def recompute(self, inputs: Tensors, kept: Tensors) -> Tensors:
        """Return what the backward needs, again."""
        return list(
            self._recompute.call_flat(*inputs, *kept, *self._recompute_captured)
        )

    def backward(
        self, saved: Tensors, output_gradients: Tensors
    ) -> tuple[Tensors, Tensors, Captured]:
        """Return gradients of the inputs, of the variables, and captured ones."""
        by_name = {
            tensor.name: value for tensor, value in zip(self._saved, saved, strict=True)
        }
        arriving = [
            gradient
            for gradient, wanted in zip(output_gradients, self._flows, strict=False)
            if wanted
        ]
        captured = [
            (self._outer | by_name)[tensor.name] if self._is_own(tensor) else tensor
            for tensor in self._backward_captures
        ]
        results = iter(self._backward.call_flat(*arriving, *captured))
        to_inputs = [next(results) if has else None for has in self._input_has]
        to_variables = [next(results) for _ in self.variables]
        by_tag = {
            tag: [next(results) for _ in range(size)]
            for tag, size in self._captured_sizes.items()
        }
        return to_inputs, to_variables, by_tag

    def _is_own(self, tensor: Any) -> bool:
        """Tell whether a tensor is of the stage's graph; eager ones are of none."""
        return getattr(tensor, "graph", None) is self._stage.graph

    def _build_backward(self, loss: Any, variables: Sequence[Any]) -> None:
        graph = self._stage.graph
        outputs = graph.outputs[: self._stage.outputs]
        inputs = graph.inputs[: self._stage.arguments]
        inner_of = {id(outer): inner for outer, inner in graph.captures}
        used = [item for item in variables if id(item.handle) in inner_of]
        handles = [inner_of[id(item.handle)] for item in used]
        backward = FuncGraph(f"{graph.name}_backward")
        # A stage passes labels on untouched; no gradient can come back for them.
        self._flows = [loss is None and output.dtype.is_floating for output in outputs]
        differentiable = [item for item in inputs if item.dtype.is_floating]
        with backward.as_default(), capturing() as captures:
            if loss is None:
                targets = [
                    out
                    for out, flows in zip(outputs, self._flows, strict=True)
                    if flows
                ]
                arriving = [
                    tf.compat.v1.placeholder(out.dtype, out.shape) for out in targets
                ]
            else:
                targets, arriving = [loss], []
            backward.inputs.extend(arriving)
            gradients = gradients_across(
                graph, targets, [*differentiable, *handles], arriving
            )
            by_input = dict(
                zip((t.name for t in differentiable), gradients, strict=False)
            )
            # Floating inputs always get a gradient, so that stages agree on them.
            to_inputs = [
                _dense(by_input[item.name], item)
                for item in inputs
                if item.dtype.is_floating
            ]
            to_variables = [
                (variable, gradient)
                for variable, gradient in zip(
                    used, gradients[len(differentiable) :], strict=True
                )
                if gradient is not None
            ]
            self.variables = [variable for variable, _ in to_variables]
            backward.outputs = [
                tf.identity(tensor)
                for tensor in (
                    *to_inputs,
                    *(tf.convert_to_tensor(gradient) for _, gradient in to_variables),
                    *(item for items in captures.gradients.values() for item in items),
                )
            ]
        self._captured_sizes = {
            tag: len(items) for tag, items in captures.gradients.items()
        }
        self._input_has = [item.dtype.is_floating for item in inputs]
        self._backward_captures = list(backward.external_captures)
        self._saved = [
            tensor
            for tensor in self._backward_captures
            if self._is_own(tensor) and tensor.name not in self._outer
        ]
        self._backward = called_function(backward)

    def _build_recompute(self) -> None:
        graph = self._stage.graph
        again = FuncGraph(f"{graph.name}_recompute")
        own = graph.inputs[: self._stage.arguments]
        forward_outputs = graph.outputs
        with again.as_default():
            placeholders = [
                tf.compat.v1.placeholder(tensor.dtype, tensor.shape)
                for tensor in (*own, *self._kept)
            ]
            again.inputs.extend(placeholders)
            given = {
                tensor.name: placeholder
                for tensor, placeholder in zip(
                    (*own, *self._kept), placeholders, strict=True
                )
            }
            graph.outputs = self._saved
            copies = replicate(
                graph, [placeholders[: len(own)]], ReplicaVariables(1), (), given
            )
            graph.outputs = forward_outputs
            again.outputs = [tf.identity(tensor) for tensor in copies.outputs[0]]
        self._recompute_captured = list(again.external_captures)
        self._recompute = called_function(again)


def _dense(gradient: Any, tensor: Any) -> Any:
    if gradient is None:
        return tf.zeros(tensor.shape, tensor.dtype)
    return tf.convert_to_tensor(gradient)


def _not_repeatable(stage: TracedStage) -> list[Any]:
    """Return the tensors that would differ if the stage ran twice."""
    written = written_handles(stage.graph)
    inputs = {tensor.name for tensor in stage.graph.inputs}
    return [
        output
        for operation in stage.graph.get_operations()
        if operation.op_def is not None and operation.op_def.is_stateful
        for output in operation.outputs
        if output.name not in inputs
        and output.dtype not in (tf.resource, tf.variant)
        and (operation.type != "ReadVariableOp" or operation.inputs[0].name in written)
    ]


class GraphStages:
    """All stages of a pipeline as functions, for one pipeline run."""

    def __init__(
        self,
        stages: Sequence[TracedStage],
        loss: Any,
        variables: Sequence[Any],
        recomputes: bool,
        adjust: Callable[[Any, Any], Any],
    ) -> None:
        last = len(stages) - 1
        self._adjust = adjust
        self._stages = [
            GraphStageFunctions(
                stage,
                loss if index == last else None,
                variables,
                training=loss is not None,
                recomputes=recomputes and index != last,
            )
            for index, stage in enumerate(stages)
        ]
        self._kept: dict[tuple[int, int], Tensors] = {}
        self.captured: dict[int, Captured] = {}
        """Captured gradients of all stages, by micro-batch."""

    def variables(self, stage: int) -> list[Any]:
        """Return the variables that a stage has gradients for."""
        return self._stages[stage].variables

    def forward(
        self, stage: int, micro_batch: int, inputs: Tensors
    ) -> tuple[Tensors, Tensors]:
        """Run a stage."""
        arguments = [*inputs, tf.constant(micro_batch)]
        outputs, saved, kept = self._stages[stage].forward(arguments)
        self._kept[stage, micro_batch] = kept
        return outputs, saved

    def recompute(self, stage: int, micro_batch: int, inputs: Tensors) -> Tensors:
        """Run a stage again, with the draws of its forward pass."""
        kept = self._kept.pop((stage, micro_batch))
        arguments = [*inputs, tf.constant(micro_batch)]
        return self._stages[stage].recompute(arguments, kept)

    def backward(
        self, stage: int, micro_batch: int, saved: Tensors, output_gradients: Tensors
    ) -> tuple[Tensors, Tensors]:
        """Return gradients of a stage's inputs and variables."""
        functions = self._stages[stage]
        to_inputs, to_variables, captured = functions.backward(saved, output_gradients)
        self.captured.setdefault(micro_batch, {}).update(captured)
        adjusted = [
            self._adjust(gradient, variable)
            for gradient, variable in zip(
                to_variables, functions.variables, strict=True
            )
        ]
        return to_inputs, adjusted
