"""The graphs inside of operations: branches, loops and calls of functions."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tensorflow.python.ops import cond_v2, while_v2

CONDITIONS = frozenset({"If", "StatelessIf"})
BRANCHES = CONDITIONS | {"Case", "StatelessCase"}
LOOPS = frozenset({"While", "StatelessWhile"})
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})

_known: weakref.WeakKeyDictionary[Any, Sequence[Any]] = weakref.WeakKeyDictionary()


def inner_graphs(operation: Any) -> Sequence[Any]:
    """Return all branches, or condition and body, or the function that is called."""
    if operation.type not in BRANCHES | LOOPS | CALLS:
        return ()
    if operation not in _known:
        _known[operation] = _read(operation)
    return _known[operation]


def _read(operation: Any) -> Sequence[Any]:
    if operation.type in BRANCHES:
        branches: Sequence[Any] = cond_v2.get_func_graphs(operation)
        return branches
    if operation.type in LOOPS:
        return (
            while_v2._get_graph(operation, "cond", "_cond_graph"),
            while_v2._get_graph(operation, "body", "_body_graph"),
        )
    return (_called(operation),)


def _called(operation: Any) -> Any:
    name, graph = operation.get_attr("f").name, operation.graph
    while graph._get_function(name) is None:
        graph = graph.outer_graph
    return graph._get_function(name).graph


def all_operations(graph: Any) -> Iterator[Any]:
    """Yield the operations of a graph, each followed by those inside of it."""
    for operation in graph.get_operations():
        yield operation
        for inner in inner_graphs(operation):
            yield from all_operations(inner)


def holds(graph: Any, test: Callable[[Any], bool]) -> bool:
    """Tell whether a graph, or one inside of it, has such an operation."""
    return any(map(test, all_operations(graph)))
