"""What a layer call does, read from the graph that TensorFlow makes of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.call_graph import (
    CallGraph,
    build_graph,
    call_in_graph,
    needed,
)
from ipu_runtime.engine.describe.graph_walk import GraphWalk
from ipu_runtime.engine.describe.loop_trips import origin
from ipu_runtime.engine.describe.repeatable_call import RepeatableCall
from ipu_runtime.frameworks.tensorflow_graphs import FuncGraph
from ipu_runtime.plan.model.gradients import forward_flops
from ipu_runtime.plan.model.model_spec import Layer, LayerSpec, Shape, Weight
from ipu_runtime.plan.model.operations import (
    Operation,
    OpKind,
    TracedWork,
    joined,
    values_at,
)

_STYLE = re.compile("\x1b\\[[0-9;]*m")
_BATCHES = (1009, 1013, 1019, 1021)
"""Primes: an extent that one of them divides grows with the batch.

One trace tells everything, also where a batch is folded into rows. A batch dimension
that is left open would leave most shapes behind it open, too.
"""


def trace_layer(call: RepeatableCall, spec: LayerSpec, dtype: str) -> Layer:
    """Return a layer call with all that it does; no call is refused."""
    weights = tuple(_weights(call.operation))
    shapes, made = call.input_shapes, call.output_shapes
    value_bytes = 2 if dtype == "float16" else 4
    # Several results lie side by side.
    output = made[0] if len(made) == 1 else (sum(values_at(s, 1) for s in made),)
    try:
        work = _traced_work(call, _prime(shapes, weights), value_bytes)
    except Exception as error:  # a layer may raise anything when it is called
        work = _untraced(shapes, output, error)
    return Layer(spec, shapes, output, weights, forward_flops(work.forward), work)


def _weights(operation: Any) -> Iterable[Weight]:
    for variable in getattr(operation, "weights", ()):
        yield Weight(variable.path, tuple(variable.shape), variable.trainable)


def _prime(shapes: Sequence[Shape], weights: Sequence[Weight]) -> int:
    """Return a number that divides none of the layer's own extents."""
    own = [extent for shape in shapes for extent in shape]
    own += [extent for weight in weights for extent in weight.shape]
    return next(
        batch for batch in _BATCHES if all(extent % batch for extent in own if extent)
    )


def _traced_work(call: RepeatableCall, prime: int, value_bytes: int) -> TracedWork:
    """Trace a call at a batch that is a prime, or at the only one that it takes."""
    try:
        return _trace(call, prime, prime, value_bytes)
    except Exception:  # a layer may raise anything when it is called
        batches = {tensor.shape[0] for tensor in call.inputs if len(tensor.shape)}
        if len(batches) != 1 or None in batches:
            raise
    (batch,) = batches
    work = _trace(call, batch, prime, value_bytes)
    remark = f"takes batches of {batch} only: costs and memory are those of that size"
    return replace(work, keeps_input=True, remarks=(*work.remarks, remark))


def _trace(
    call: RepeatableCall, batch: int, prime: int, value_bytes: int
) -> TracedWork:
    built = build_graph(call, batch)
    walk = GraphWalk(prime)
    operations = built.graph.get_operations()
    first, second = operations[: built.forward_count], operations[built.forward_count :]
    forward = walk.plain_ops(needed(first, built.outputs), built.outputs)
    of_weights = _tensors(built.weight_gradients)
    of_all = of_weights + _tensors(built.input_gradients)
    for_weights, for_all = needed(second, of_weights), needed(second, of_all)
    kept_by_loops = walk.kept_bytes
    added = _added_rows(built.weight_gradients, walk)
    weights_backward = walk.plain_ops(for_weights, of_weights) + added
    backward = walk.plain_ops(for_all, of_all) + added
    kept = _Kept(walk, value_bytes)
    kept.look(for_all, first, built)
    remarks = [*walk.remarks]
    if walk.unknown:
        names = ", ".join(sorted(walk.unknown))
        remarks.append(f"{names}: not known, counted as data that move")
    if built.problem:
        remarks.append(built.problem)
        backward, weights_backward = forward + forward, forward
    return TracedWork(
        forward=tuple(forward),
        inference=tuple(_inference(call, batch, prime)),
        backward=tuple(backward),
        weights_backward=tuple(weights_backward),
        keeps_input=kept.input,
        keeps_output=kept.output,
        kept_values=kept.values + kept_by_loops // value_bytes,
        mask_bytes=kept.mask_bytes,
        stateful=walk.draws,
        remarks=tuple(remarks),
    )


def _inference(call: RepeatableCall, batch: int, prime: int) -> list[Operation]:
    graph = FuncGraph("inference")
    with graph.as_default():
        outputs = call_in_graph(call, batch, False)[2]
    operations = needed(graph.get_operations(), outputs)
    return GraphWalk(prime).plain_ops(operations, outputs)


def _tensors(gradients: Iterable[Any]) -> list[Any]:
    """Return the tensors that gradients consist of."""
    return [
        gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        for gradient in gradients
        if gradient is not None
    ]


def _added_rows(gradients: Iterable[Any], walk: GraphWalk) -> list[Operation]:
    """Return the additions of rows to tables, which TensorFlow leaves to optimisers."""
    return [
        Operation(
            OpKind.SCATTER, "IndexedSlices", (joined(walk.extents(gradient.values)),)
        )
        for gradient in gradients
        if isinstance(gradient, tf.IndexedSlices)
    ]


class _Kept:
    """What the backward pass takes of the forward pass, for one sample."""

    def __init__(self, walk: GraphWalk, value_bytes: int) -> None:
        self._walk = walk
        self._value_bytes = value_bytes
        self.input = self.output = False
        self.values = self.mask_bytes = 0

    def look(
        self, backward: Sequence[Any], forward: Sequence[Any], built: CallGraph
    ) -> None:
        """Find the tensors of the forward operations that backward ones take."""
        made = {item.name for item in forward if item.type != "Placeholder"}
        outputs = {origin(tensor).name for tensor in built.outputs}
        inputs = {tensor.name for tensor in built.inputs}
        taken = {
            origin(tensor).name: origin(tensor)
            for operation in backward
            if operation.type not in ("Shape", "ShapeN", "Size", "Rank", "ZerosLike")
            for tensor in operation.inputs
        }
        for name, tensor in taken.items():
            if name in inputs:
                self.input = True
            elif name in outputs:
                self.output = True
            elif tensor.op.name in made:
                self._add(tensor)

    def _add(self, tensor: Any) -> None:
        if tensor.dtype in (tf.variant, tf.resource) or tensor.shape.rank is None:
            return
        shape = self._walk.extents(tensor)
        if joined(shape) >= 0:
            return
        size = values_at(shape, 1) * tensor.dtype.size
        if tensor.dtype.is_bool and self._walk.draws:
            self.mask_bytes += size
        else:
            self.values += -(-size // self._value_bytes)


def _untraced(shapes: Sequence[Shape], output: Shape, error: Exception) -> TracedWork:
    """Return the cost of moving what goes in and out."""
    moved = sum(values_at(shape, 1) for shape in (*shapes, output))
    op = Operation(OpKind.UNKNOWN, "untraced", (-moved,))
    # Keras puts a line before the message, and the message into bold letters.
    lines = [line.strip() for line in _STYLE.sub("", str(error)).splitlines()]
    said = [line for line in lines if line and not line.startswith("Exception enc")]
    reason = said[0] if said else type(error).__name__
    remark = f"cannot be traced, counted as data that move: {reason}"
    return TracedWork((op,), (op,), (op,), (op,), True, remarks=(remark,))
