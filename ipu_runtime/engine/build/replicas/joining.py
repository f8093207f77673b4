"""Which operations replicas have to go through together."""

from __future__ import annotations

from typing import Any

from ipu_runtime.engine.build.replicas.collectives import collective_of
from ipu_runtime.engine.build.replicas.random_seeds import draws
from ipu_runtime.frameworks.inner_graphs import holds, inner_graphs

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
