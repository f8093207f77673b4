"""The operations of a TensorFlow graph as the device would run them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.reading.elementwise_fusion import fused
from ipu_runtime.engine.reading.loop_trips import origin, trips
from ipu_runtime.engine.reading.matrix_ops import matrix_op
from ipu_runtime.engine.reading.op_table import (
    CYCLES,
    HOST,
    KINDS,
    KNOWN_BEFORE,
    VIEWS,
)
from ipu_runtime.frameworks.inner_graphs import BRANCHES, CALLS, LOOPS, inner_graphs
from ipu_runtime.plan.model.traced_ops import (
    Extent,
    OpKind,
    TracedOp,
    joined,
    values_at,
)

NO_BATCH = 2**62
"""Divides no extent: a walk takes every one as it is, for shapes that are fixed."""
_FEW = 17
"""Fewer whole numbers than these are a counter, a seed or a shape."""
_SEVERAL_EXTENTS = (
    OpKind.REDUCTION,
    OpKind.NORM,
    OpKind.NORM_GRADIENT,
    OpKind.SORT,
    OpKind.SCAN,
)
_SOFTMAX_SCOPES = ("Softmax", "LogSoftmax")


@dataclass
class GraphWalk:
    """Walks graphs that were built with a batch of a number that divides nothing else.

    So every extent that it divides grows with the batch, however it was reached.
    """

    batch: int
    unknown: set[str] = field(default_factory=set)
    remarks: list[str] = field(default_factory=list)
    kept_bytes: int = 0
    """What loops keep of one sample for their gradients."""
    draws: bool = False

    def extents(self, tensor: Any) -> tuple[Extent, ...]:
        """Return a tensor's shape, extents that grow with the batch negative."""
        if tensor.shape.rank is None:
            self._remark(f"{tensor.op.type} makes a tensor of unknown shape")
            return (1,)
        return tuple(self.extent(extent or 1) for extent in tensor.shape.as_list())

    def extent(self, extent: int) -> Extent:
        """Return one extent, negative if it grows with the batch."""
        return extent if extent % self.batch or not extent else -extent // self.batch

    def plain_ops(self, operations: Sequence[Any]) -> list[TracedOp]:
        """Return what the operations of one graph do."""
        constants = _constants(operations[0].graph) if operations else set()
        real = [
            operation
            for operation in operations
            if not (
                operation.name in constants
                or operation.type in VIEWS
                or _on_host(operation)
                or self._casts_weight(operation)
            )
        ]
        parts: dict[tuple[str, str], list[TracedOp]] = {}
        elementwise: dict[str, TracedOp] = {}
        for operation in real:
            scope = _softmax_gradient(operation)
            if scope:
                whole = self._sized(operation, OpKind.SOFTMAX_GRADIENT)
                parts[scope, ""] = [whole]
            elif operation.type in CYCLES:
                elementwise[operation.name] = self._elementwise(operation)
            else:
                # Parts of one tensor are taken in one step.
                sliced = operation.type in ("Slice", "StridedSlice")
                of = origin(operation.inputs[0]).name if sliced else operation.name
                earlier = parts.setdefault((of, operation.type), [])
                earlier[:] = _merged(earlier + self._others(operation), sliced)
        plain = [op for part in parts.values() for op in part]
        return plain + fused(real, elementwise, origin)

    def _casts_weight(self, operation: Any) -> bool:
        """Whether a weight or its gradient changes its type: the plan has one type."""
        if operation.type != "Cast":
            return False
        taken, made = operation.inputs[0], operation.outputs[0]
        floats = taken.dtype.is_floating and made.dtype.is_floating
        return floats and joined(self.extents(made)) >= 0

    def _others(self, operation: Any) -> list[TracedOp]:
        kind = operation.type
        if kind in CALLS:
            return self.plain_ops(inner_graphs(operation)[0].get_operations())
        if kind in LOOPS:
            return self._loop(operation)
        if kind in BRANCHES:
            branches = [
                self.plain_ops(graph.get_operations())
                for graph in inner_graphs(operation)
            ]
            return max(branches, key=_work)
        matrix = matrix_op(operation, self.extents)
        if matrix is not None:
            return [TracedOp(matrix[0], kind, matrix[1], _bytes(operation))]
        found = KINDS.get(kind)
        self.draws |= found is OpKind.RANDOM
        if found is None:
            self.unknown.add(kind)
            return [self._sized(operation, OpKind.UNKNOWN)]
        extents = self._own_extents(operation, found)
        if extents:
            return [TracedOp(found, kind, extents, _bytes(operation))]
        return [self._sized(operation, found)] if extents is None else []

    def _own_extents(self, operation: Any, kind: OpKind) -> tuple[Extent, ...] | None:
        """Return the extents of kinds that need several; none if nothing is done."""
        if kind not in _SEVERAL_EXTENTS:
            return None
        shape = self.extents(operation.inputs[0])
        values, axis = joined(shape), shape[-1] if shape else 1
        if kind is OpKind.REDUCTION:
            axis = joined(self.extents(operation.outputs[0]))
            return () if values == axis else (values, axis)
        if kind in (OpKind.NORM, OpKind.NORM_GRADIENT):
            first = operation.get_attr("data_format").startswith(b"NC")
            axis = shape[1 if first else -1]
        return values, axis

    def _loop(self, operation: Any) -> list[TracedOp]:
        count = trips(operation)
        if count is None:
            self._remark("a loop of unknown length counts once")
            count = 1
        times = self.extent(count)
        inside = inner_graphs(operation)[1].get_operations()
        for inner in inside:
            if inner.type == "TensorListPushBack":
                self._keep(inner.inputs[1], abs(times))
        return [
            replace(op, repeat=joined((op.repeat, times)))
            for op in self.plain_ops(inside)
        ]

    def _keep(self, element: Any, times: int) -> None:
        """Count what a loop stores every time for its gradient."""
        shape = self.extents(element)
        if joined(shape) < 0:
            self.kept_bytes += times * values_at(shape, 1) * element.dtype.size

    def _elementwise(self, operation: Any) -> TracedOp:
        size = _bytes(operation)
        cycles = CYCLES[operation.type][size <= 2]
        if operation.type == "AddN":
            cycles += len(operation.inputs) - 2
        shape = self.extents(operation.outputs[0])
        return TracedOp(OpKind.ELEMENTWISE, operation.type, shape, size, cycles)

    def _sized(self, operation: Any, kind: OpKind) -> TracedOp:
        """Return an operation that is costed by the size of a tensor."""
        tensor = self._largest(operation, kind)
        size = tensor.dtype.size or 4
        return TracedOp(kind, operation.type, (joined(self.extents(tensor)),), size)

    def _largest(self, operation: Any, kind: OpKind) -> Any:
        if kind is OpKind.POOL:
            return operation.inputs[0]
        if kind in (OpKind.GATHER, OpKind.COPY, OpKind.RANDOM):
            tensors = operation.outputs
            if operation.type in ("Split", "SplitV", "Unpack"):
                tensors = operation.inputs
        elif kind is OpKind.SCATTER:
            # Rows that are added; the table that they go to stays where it is.
            tensors = operation.inputs
            if operation.type.startswith(("Tensor", "Scatter")):
                tensors = operation.inputs[1:]
        else:
            tensors = [*operation.inputs, *operation.outputs]
        sized = [tensor for tensor in tensors if tensor.dtype != tf.variant]
        return max(
            sized or operation.outputs,
            key=lambda tensor: values_at(self.extents(tensor), self.batch),
        )

    def _remark(self, text: str) -> None:
        if text not in self.remarks:
            self.remarks.append(text)


def _constants(graph: Any) -> set[str]:
    """Name the operations that a compiler would have done already."""
    constants: set[str] = set()
    for operation in graph.get_operations():
        folded = operation.inputs and all(
            tensor.op.name in constants for tensor in operation.inputs
        )
        if operation.type in KNOWN_BEFORE or (
            folded
            and operation.type not in LOOPS | CALLS | BRANCHES
            and KINDS.get(operation.type) is not OpKind.RANDOM
        ):
            constants.add(operation.name)
    return constants


def _on_host(operation: Any) -> bool:
    """Whether an operation only steers others: lists, counters, seeds, checks."""
    if operation.type in HOST or not operation.outputs:
        return True
    if operation.type in LOOPS | CALLS | BRANCHES:
        return False
    made = operation.outputs[0]
    if made.dtype in (tf.variant, tf.resource):
        return operation.type not in KINDS
    few = (made.shape.num_elements() or _FEW) < _FEW
    return few and (made.dtype.is_integer or made.dtype.is_bool)


def _softmax_gradient(operation: Any) -> str:
    """Return the scope of a softmax's gradient that an operation is a part of."""
    scope, _, _ = operation.name.rpartition("/")
    last = scope.rpartition("/")[2].removesuffix("_grad")
    return (
        scope
        if last.rstrip("_0123456789") in _SOFTMAX_SCOPES and (scope.endswith("_grad"))
        else ""
    )


def _merged(ops: list[TracedOp], sliced: bool) -> list[TracedOp]:
    """Return slices as one copy, if all grow with the batch or none does."""
    if not sliced or len({op.shape[0] < 0 for op in ops}) > 1:
        return ops
    return [replace(ops[0], shape=(sum(op.shape[0] for op in ops),))]


def _work(ops: Iterable[TracedOp]) -> float:
    """Compare branches by the values that they go over."""
    return sum(values_at(op.shape, 1) * abs(op.repeat) for op in ops)


def _bytes(operation: Any) -> int:
    """Return the bytes of a value that an operation computes with."""
    floats = [
        tensor.dtype.size
        for tensor in (*operation.outputs, *operation.inputs)
        if tensor.dtype.is_floating
    ]
    return max(floats, default=4)
