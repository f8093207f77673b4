"""The graphs inside an operation: branches, loops and calls of functions."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from tensorflow.python.ops import cond_v2, while_v2

from ipu_runtime.engine.collectives import collective_of

BRANCHES = ("If", "StatelessIf")
LOOPS = ("While", "StatelessWhile")
CALLS = ("PartitionedCall", "StatefulPartitionedCall")

_known: weakref.WeakKeyDictionary[Any, Sequence[Any]] = weakref.WeakKeyDictionary()


def inner_graphs(operation: Any) -> Sequence[Any]:
    """Return both branches, or condition and body, or the function that is called."""
    if operation.type not in (*BRANCHES, *LOOPS, *CALLS):
        return ()
    if operation not in _known:
        _known[operation] = _read(operation)
    return _known[operation]


def has_collective(graph: Any) -> bool:
    """Tell whether a traced program talks to its other replicas."""
    return _holds(graph, lambda item: collective_of(item) in ("sum", "mean"))


def must_be_joined(operation: Any, replicas: int) -> bool:
    """Tell whether replicas have to go through an operation's graphs together.

    They do where they exchange values, share data or have one outfeed. With a single
    replica it is enough that a compiled function does such a thing: the host's compiler
    has neither data sets nor queues, so the function's operations must stand free.
    """
    graphs = inner_graphs(operation)
    return any(_holds(graph, _shares) for graph in graphs) and (
        replicas > 1
        or _is_compiled(operation)
        or any(_holds(graph, _is_compiled) for graph in graphs)
    )


def _read(operation: Any) -> Sequence[Any]:
    if operation.type in BRANCHES:
        branches: Sequence[Any] = cond_v2.get_func_graphs(operation)
        return branches
    if operation.type in LOOPS:
        return (
            while_v2._get_graph(operation, "cond", "_cond_graph"),
            while_v2._get_graph(operation, "body", "_body_graph"),
        )
    name, graph = operation.get_attr("f").name, operation.graph
    while graph._get_function(name) is None:
        graph = graph.outer_graph
    return (graph._get_function(name).graph,)


def _holds(graph: Any, test: Callable[[Any], bool]) -> bool:
    return any(
        test(operation) or any(_holds(inner, test) for inner in inner_graphs(operation))
        for operation in graph.get_operations()
    )


def _shares(operation: Any) -> bool:
    return bool(collective_of(operation)) or operation.type == "IteratorGetNext"


def _is_compiled(operation: Any) -> bool:
    return bool(operation.node_def.attr["_XlaMustCompile"].b)
