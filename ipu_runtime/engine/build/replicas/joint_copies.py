"""Loops and calls that all replicas go through together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ipu_runtime.frameworks.inner_graphs import inner_graphs

if TYPE_CHECKING:
    from ipu_runtime.engine.build.replicas.replication import Copies

ByReplica = Sequence[Sequence[Any]]
CopyGraph = Callable[[Any, ByReplica], "Copies"]
"""Copies a graph for all replicas, given the values of its inputs."""


def copy_loop(
    operation: Any, inputs: ByReplica, copy_graph: CopyGraph
) -> tuple[ByReplica, Any]:
    """Build one loop for all replicas; return their results, and what ends last.

    It goes on as long as the first replica does.
    """
    condition, body = inner_graphs(operation)
    # Variables, data and queues stay the same: the loop refers to them from inside.
    changing = [
        index
        for index, tensor in enumerate(operation.inputs)
        if tensor.dtype != tf.resource
    ]

    def complete(flat: Sequence[Any]) -> ByReplica:
        values = [list(one) for one in inputs]
        for position, value in enumerate(flat):
            replica, place = divmod(position, len(changing))
            values[replica][changing[place]] = value
        return values

    def goes_on(*flat: Any) -> Any:
        return copy_graph(condition, complete(flat)).outputs[0][0]

    def iterate(*flat: Any) -> list[Any]:
        copies = copy_graph(body, complete(flat))
        with tf.control_dependencies(copies.control_outputs):
            return [
                tf.identity(outputs[index])
                for outputs in copies.outputs
                for index in changing
            ]

    shapes = [operation.outputs[index].shape for index in changing]
    flat = tf.while_loop(
        goes_on,
        iterate,
        [one[index] for one in inputs for index in changing],
        shape_invariants=shapes * len(inputs),
        parallel_iterations=1,
    )
    # Some graphs give every result an operation of its own, and drop what is unused.
    return complete(flat), tf.group(*flat)


def copy_call(
    operation: Any, inputs: ByReplica, copy_graph: CopyGraph
) -> tuple[ByReplica, Any]:
    """Put the operations of a called function in its place, for all replicas."""
    copies = copy_graph(inner_graphs(operation)[0], inputs)
    # Whoever waits for the call waits for its results, too.
    results = [tensor.op for outputs in copies.outputs for tensor in outputs]
    return copies.outputs, tf.group(*results, *copies.control_outputs)
