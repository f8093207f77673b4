"""Loops and calls that all replicas go through together: which, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.collectives import collective_of
from ipu_runtime.engine.build.replicas.replica_variables import draws
from ipu_runtime.frameworks.inner_graphs import holds, inner_graphs

if TYPE_CHECKING:
    from ipu_runtime.engine.build.replicas.replication import Copies


_EXCHANGES = ("sum", "mean", "gather")


def has_collective(graph: Any) -> bool:
    """Tell whether a traced program talks to its other replicas."""
    return holds(graph, lambda item: collective_of(item) in _EXCHANGES)


def must_be_joined(operation: Any, exchange: bool) -> bool:
    """Tell whether replicas have to go through an operation's graphs together.

    They do where they `exchange` values, share data or have one outfeed. With a single
    replica it is enough that a compiled function does such a thing: the host's compiler
    has neither data sets nor queues nor calls of Python nor a terminal, so the
    function's operations must stand free.
    """
    graphs = inner_graphs(operation)
    if exchange and any(holds(graph, _shares) for graph in graphs):
        return True
    compiled = _is_compiled(operation) or any(
        holds(graph, _is_compiled) for graph in graphs
    )
    return compiled and any(holds(graph, _needs_host) for graph in graphs)


def draws_inside(operation: Any) -> bool:
    """Tell whether random numbers are drawn in an operation's graphs."""
    return any(holds(graph, draws) for graph in inner_graphs(operation))


def _shares(operation: Any) -> bool:
    return bool(collective_of(operation)) or operation.type == "IteratorGetNext"


def _needs_host(operation: Any) -> bool:
    return _shares(operation) or operation.type in ("PyFunc", "PrintV2")


def _is_compiled(operation: Any) -> bool:
    return bool(operation.node_def.attr["_XlaMustCompile"].b)


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
