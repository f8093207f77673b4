"""The plan of a program that a script has written itself, read from its operations."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.graph_walk import NO_BATCH, GraphWalk
from ipu_runtime.engine.describe.loop_trips import trips
from ipu_runtime.engine.describe.program_request import program_request
from ipu_runtime.engine.watch.observer import ProgramPlan
from ipu_runtime.frameworks.inner_graphs import CALLS, LOOPS, holds, inner_graphs
from ipu_runtime.frameworks.tensorflow_variables import ASSIGNMENTS
from ipu_runtime.plan.model.model_spec import Layer, LayerSpec, ModelSpec, Weight
from ipu_runtime.plan.model.operations import TracedWork
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.system.emulated_device import device_for

_VALUE_BYTES = 4
_FEED = "IteratorGetNext"
_REMARK = (
    "the whole program counts as one layer, and one {step} as one step; memory is "
    "weights, results and the largest operation, without what gradients keep"
)


def plan_own(name: str, graph: Any, replicas: int, shards: int) -> ProgramPlan:
    """Plan a traced program, or say why there is no plan.

    It is looked at because somebody watches, so nothing here may end the script: also
    a program that is too large for the device is only told of.
    """
    if graph is None:
        return ProgramPlan(None, None, "its operations are not known")
    if shards > 1:
        reason = f"it places operations on {shards} IPUs itself"
        return ProgramPlan(None, None, f"{reason}, which the plan does not follow")
    try:
        request = _request(name, graph, replicas)
        if request is None:
            return ProgramPlan(None, None, "it computes nothing that the plan knows")
        plan = make_plan(request)
    except Exception as error:  # graphs of scripts may hold anything
        return ProgramPlan(None, None, f"it cannot be read: {error}")
    if plan.step is None:
        reason = "; ".join(str(problem) for problem in plan.problems)
        return ProgramPlan(request, None, reason)
    return ProgramPlan(request, plan, compile_s=plan.compile_s)


def _request(name: str, graph: Any, replicas: int) -> PlanRequest | None:
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
    model = ModelSpec((source, layer), (name,))
    return program_request(
        model,
        device_for(None),
        batch_size=batch,
        batches=iterations * replicas,
        steps_per_execution=iterations,
    )


def _fed(graph: Any) -> tuple[int, int]:
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


def _variables(graph: Any) -> list[Any]:
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


def repeated(graph: Any) -> tuple[Any, int]:
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


def trains(graph: Any) -> bool:
    """Tell whether a program changes weights."""
    return graph is not None and holds(graph, _changes_weights)


def _changes_weights(operation: Any) -> bool:
    if operation.type.startswith("ResourceApply"):
        return True
    # Counters of steps and random states are whole numbers.
    return operation.type in ASSIGNMENTS and operation.inputs[1].dtype.is_floating
