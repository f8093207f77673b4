"""A stage that a script states as a Python function, traced into a graph."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.pipeline.pooling_gradient import pooled_again
from ipu_runtime.engine.build.programs.iteration_counter import counted_by
from ipu_runtime.frameworks.tensorflow_graphs import FuncGraph

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
