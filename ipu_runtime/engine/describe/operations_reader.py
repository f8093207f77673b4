"""A program that a script has written itself, read from its operations."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from ipu_runtime.engine.describe.graph_walk import NO_BATCH, GraphWalk
from ipu_runtime.engine.describe.loop_trips import trips
from ipu_runtime.frameworks.inner_graphs import CALLS, LOOPS, holds, inner_graphs
from ipu_runtime.frameworks.tensorflow_variables import ASSIGNMENTS
from ipu_runtime.frameworks.types import Graph, Operation, Variable
from ipu_runtime.plan.model.model_spec import Layer, LayerSpec, ModelSpec, Weight
from ipu_runtime.plan.model.operations import TracedWork

_VALUE_BYTES = 4
_FEED = "IteratorGetNext"
_REMARK = (
    "the whole program counts as one layer, and one {step} as one step; memory is "
    "weights, results and the largest operation, without what gradients keep"
)


@dataclass(frozen=True)
class ReadOperations:
    """A program as one layer, which does all that one of its steps does."""

    spec: ModelSpec
    batch_size: int
    """Samples of a step that come from data sets; 1 where they are not known."""
    iterations: int
    """Of the program's one loop, which are its steps; 1 without such a loop."""


def read_operations(name: str, graph: Graph) -> ReadOperations | None:
    """Read a traced program; None if it computes nothing that the plan knows."""
    walk = GraphWalk(NO_BATCH)
    inner, iterations = repeated(graph)
    operations = tuple(walk.plain_ops(inner.get_operations()))
    if not operations:
        return None
    step = "iteration" if inner is not graph else "execution"
    batch, sample_bytes = _fed(inner)
    remarks = [_REMARK.format(step=step)]
    if not sample_bytes:
        remarks.append(f"its batches are not known: one {step} counts as one sample")
    remarks += dict.fromkeys(walk.remarks)
    # What a data set gives is streamed, and then moves to where it is used.
    if unknown := walk.unknown - {_FEED}:
        names = ", ".join(sorted(unknown))
        remarks.append(f"{names}: not known, counted as data that move")
    work = TracedWork(operations, operations, remarks=tuple(remarks))
    weights = tuple(
        Weight(variable.name, tuple(variable.shape.as_list()), variable.trainable)
        for variable in _variables(graph)
        if variable.dtype.is_floating
    )
    fed = max(1, -(-sample_bytes // _VALUE_BYTES))
    source = Layer(LayerSpec("input", "Input", {"shape": [fed]}), (), (fed,))
    spec = LayerSpec(name, "Program", {}, ("input",))
    layer = Layer(spec, ((fed,),), (1,), weights, traced=work)
    return ReadOperations(ModelSpec((source, layer), (name,)), batch, iterations)


def _fed(graph: Graph) -> tuple[int, int]:
    """Return the samples of a step that come from data sets, and the bytes of one.

    Those of the first data set count; the bytes are those of all. Loops inside of the
    step take further ones, which are not known.
    """
    operations = graph.get_operations()
    for call in (operation for operation in operations if operation.type in CALLS):
        operations += inner_graphs(call)[0].get_operations()
    parts = [
        part
        for operation in operations
        if operation.type == _FEED
        for part in operation.outputs
        if part.shape.is_fully_defined()
    ]
    if not parts:
        return 1, 0
    batch = int(parts[0].shape[0]) if parts[0].shape.rank else 1
    total = sum(part.shape.num_elements() * part.dtype.size for part in parts)
    return batch, -(-total // batch)


def _variables(graph: Graph) -> list[Variable]:
    """Return what a program reads and writes; a session's graph has a list of all."""
    if not isinstance(getattr(graph, "outer_graph", None), tf.Graph):
        return list(graph.variables)
    everywhere = graph.outer_graph.get_collection(
        tf.compat.v1.GraphKeys.GLOBAL_VARIABLES
    )
    captured = {
        outer.op.name for outer, _ in graph.captures if tf.is_symbolic_tensor(outer)
    }
    own = [item for item in everywhere if item.op.name in captured]
    return own or list(graph.variables)


def repeated(graph: Graph) -> tuple[Graph, int]:
    """Return the body of a program's one loop and how often it runs.

    A program without a loop, with several, or with one of unknown length is itself
    what runs once.
    """
    inner = graph
    while True:
        operations = inner.get_operations()
        loops = [operation for operation in operations if operation.type in LOOPS]
        calls = [operation for operation in operations if operation.type in CALLS]
        if len(loops) == 1 and not calls:
            count = trips(loops[0])
            return (inner_graphs(loops[0])[1], count) if count else (graph, 1)
        if loops or len(calls) != 1:
            return graph, 1
        (inner,) = inner_graphs(calls[0])


def trains(graph: Graph) -> bool:
    """Tell whether a program changes weights."""
    return graph is not None and holds(graph, _changes_weights)


def _changes_weights(operation: Operation) -> bool:
    if operation.type.startswith("ResourceApply"):
        return True
    # Counters of steps and random states are whole numbers.
    return operation.type in ASSIGNMENTS and operation.inputs[1].dtype.is_floating
