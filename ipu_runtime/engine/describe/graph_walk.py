"""The operations of a TensorFlow graph as the device would run them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.call_graph import needed
from ipu_runtime.engine.describe.composites import Composite, find_composites
from ipu_runtime.engine.describe.elementwise_fusion import fused
from ipu_runtime.engine.describe.loop_trips import origin, trips
from ipu_runtime.engine.describe.matrix_ops import matrix_op
from ipu_runtime.engine.describe.op_table import (
    ACTIVATION_GRADIENTS,
    ACTIVATIONS,
    CYCLES,
    HOST,
    KINDS,
    KNOWN_BEFORE,
    VIEWS,
)
from ipu_runtime.frameworks.inner_graphs import BRANCHES, CALLS, LOOPS, inner_graphs
from ipu_runtime.plan.model.gradients import gradients
from ipu_runtime.plan.model.operations import (
    Extent,
    Operation,
    OpKind,
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
_BIASES = ("BiasAdd", "BiasAddV1", "Add", "AddV2")
_IMAGE_RANK = 4
_PRODUCTS = (OpKind.MATMUL, OpKind.PRODUCT, OpKind.CONVOLUTION)
_LOSSES = ("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
"""Softmaxes whose gradient is a subtraction."""
_GRADIENTS = re.compile(r"(?:^|/)gradients(?:_\d+)?/")


@dataclass
class _Met:
    """The operations of one graph that a walk has met, for when their gradients come.

    TensorFlow names the gradient of an operation after it.
    """

    operations: dict[str, tuple[Operation, ...]] = field(default_factory=dict)
    """By the names of TensorFlow's; those of one composite have the same."""
    inner: dict[tuple[str, int], _Met] = field(default_factory=dict)
    """Of the graphs inside of operations."""


@dataclass
class GraphWalk:
    """Walks graphs that were built with a batch of a number that divides nothing else.

    So every extent that it divides grows with the batch, however it was reached.
    """

    batch: int
    as_device: bool = True
    """Whether what the device has as one operation is one; else all is TensorFlow's."""
    unknown: set[str] = field(default_factory=set)
    remarks: list[str] = field(default_factory=list)
    kept_bytes: int = 0
    """What loops keep of one sample for their gradients."""
    draws: bool = False
    _met: _Met = field(default_factory=_Met)

    def extents(self, tensor: Any) -> tuple[Extent, ...]:
        """Return a tensor's shape, extents that grow with the batch negative."""
        if tensor.shape.rank is None:
            self._remark(f"{tensor.op.type} makes a tensor of unknown shape")
            return (1,)
        return tuple(self.extent(extent or 1) for extent in tensor.shape.as_list())

    def extent(self, extent: int) -> Extent:
        """Return one extent, negative if it grows with the batch."""
        return extent if extent % self.batch or not extent else -extent // self.batch

    def plain_ops(
        self,
        operations: Sequence[Any],
        results: Sequence[Any] | None = None,
        met: _Met | None = None,
    ) -> list[Operation]:
        """Return what the operations of one graph do.

        The gradient of what this walk has met follows by rule, where there is one.

        Args:
            operations: Those that are needed, in order.
            results: What they are needed for; all that loops make, if not told.
            met: What is known of the graph already.
        """
        met = met or self._met
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
        found: dict[str, Composite] = {}
        if self.as_device:
            ahead = [item for item in real if not _differentiated(item)]
            found = find_composites(ahead, self.extents, _bytes)
        parts: dict[object, list[Operation]] = {}
        elementwise: dict[str, Operation] = {}
        ruled: dict[str, tuple[Operation, ...]] = {}
        for operation in real:
            name = operation.name
            forward = met.operations.get(_differentiated(operation))
            if forward is None and operation.type == "AddN":
                forward = _only_one(operation, ruled)
            if forward is not None:
                ruled[name] = forward
                self._differentiate(operation, forward, parts)
            elif name in found:
                whole = found[name].operations
                met.operations |= dict.fromkeys(found[name].members, whole)
                parts[id(whole)] = list(whole)
                self.draws |= whole[0].kind is OpKind.DROPOUT
            elif (single := self._single(operation)) is not None:
                if operation.type not in _LOSSES:
                    met.operations[name] = (single,)
                parts[name] = [single]
            elif operation.type in CYCLES:
                elementwise[name] = self._elementwise(operation)
            else:
                # Parts of one tensor are taken in one step.
                sliced = operation.type in ("Slice", "StridedSlice")
                of = origin(operation.inputs[0]).name if sliced else name
                earlier = parts.setdefault((of, operation.type), [])
                others = self._others(
                    operation, met, _taken(operation, operations, results)
                )
                earlier[:] = _merged(earlier + others, sliced)
        plain = [op for part in parts.values() for op in part]
        return plain + fused(real, elementwise, origin)

    def _differentiate(
        self,
        operation: Any,
        forward: tuple[Operation, ...],
        parts: dict[object, list[Operation]],
    ) -> None:
        """Add what an operation of TensorFlow's gradient stands for, if not yet there.

        A product has a gradient for either operand, and only needed ones are walked.
        """
        for op in forward:
            first, second, _ = gradients(op)
            if op.kind in _PRODUCTS:
                if matrix_op(operation, self.extents) is not None:
                    of_second = operation.name.endswith("_1")
                    of_second |= "BackpropFilter" in operation.type
                    parts[operation.name] = list((second if of_second else first)[:1])
            elif op.kind is not OpKind.BIAS or _reduces(operation):
                parts[id(forward), op.kind] = [*first, *second[:1]]

    def _single(self, operation: Any) -> Operation | None:
        """Return an operation whose gradient follows by rule, None for others."""
        matrix = matrix_op(operation, self.extents)
        if matrix is not None:
            if matrix[0] not in _PRODUCTS:
                return None
            return Operation(matrix[0], operation.type, matrix[1], _bytes(operation))
        if operation.type in CYCLES and not self.as_device:
            return None
        if operation.type in ACTIVATIONS:
            name, shape = ACTIVATIONS[operation.type], operation.outputs[0]
            if operation.type in _LOSSES:
                shape = operation.outputs[1]
            values = (joined(self.extents(shape)),)
            return Operation(OpKind.ACTIVATION, name, values, _bytes(operation))
        if operation.type in _BIASES:
            return self._bias(operation)
        return None

    def _bias(self, operation: Any) -> Operation | None:
        """Return the addition of what all samples share, None for other additions."""
        made = self.extents(operation.outputs[0])
        values = joined(made)
        shared = [
            extents
            for extents in map(self.extents, operation.inputs)
            if joined(extents) > 1 and (values < 0 or joined(extents) < values)
        ]
        if len(shared) != 1:
            return None
        size = joined(shared[0])
        per_channel = size == shared[0][-1] == made[-1]
        return Operation(
            OpKind.BIAS,
            operation.type,
            (values, size),
            _bytes(operation),
            rearranged=len(made) >= _IMAGE_RANK and per_channel,
        )

    def _casts_weight(self, operation: Any) -> bool:
        """Whether a weight or its gradient changes its type: the plan has one type."""
        if operation.type != "Cast":
            return False
        taken, made = operation.inputs[0], operation.outputs[0]
        floats = taken.dtype.is_floating and made.dtype.is_floating
        return floats and joined(self.extents(made)) >= 0

    def _others(self, operation: Any, met: _Met, taken: set[int]) -> list[Operation]:
        kind = operation.type
        if kind in CALLS:
            (inner,) = self._inner(operation, met)
            return inner
        if kind in LOOPS:
            return self._loop(operation, met, taken)
        if kind in BRANCHES:
            return max(self._inner(operation, met), key=_work)
        if self.as_device and kind in ACTIVATION_GRADIENTS:
            gradient = self._sized(operation, OpKind.ACTIVATION_GRADIENT)
            return [replace(gradient, name=ACTIVATION_GRADIENTS[kind])]
        matrix = matrix_op(operation, self.extents)
        if matrix is not None:
            return [Operation(matrix[0], kind, matrix[1], _bytes(operation))]
        found = KINDS.get(kind)
        self.draws |= found is OpKind.RANDOM
        if found is None:
            self.unknown.add(kind)
            return [self._sized(operation, OpKind.UNKNOWN)]
        extents = self._own_extents(operation, found)
        if extents:
            return [Operation(found, kind, extents, _bytes(operation))]
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

    def _inner(self, operation: Any, met: _Met) -> list[list[Operation]]:
        """Return what each graph inside of an operation does."""
        return [
            self.plain_ops(graph.get_operations(), met=_inside(operation, met, at))
            for at, graph in enumerate(inner_graphs(operation))
        ]

    def _loop(self, operation: Any, met: _Met, taken: set[int]) -> list[Operation]:
        count = trips(operation)
        if count is None:
            self._remark("a loop of unknown length counts once")
            count = 1
        times = self.extent(count)
        body = inner_graphs(operation)[1]
        for inner in body.get_operations():
            if inner.type == "TensorListPushBack":
                self._keep(inner.inputs[1], abs(times))
        repeated = _repeated_for(body, taken)
        results = [body.outputs[at] for at in taken]
        return [
            replace(op, repeat=joined((op.repeat, times)))
            for op in self.plain_ops(repeated, results, _inside(operation, met, 1))
        ]

    def _keep(self, element: Any, times: int) -> None:
        """Count what a loop stores every time for its gradient."""
        shape = self.extents(element)
        if joined(shape) < 0:
            self.kept_bytes += times * values_at(shape, 1) * element.dtype.size

    def _elementwise(self, operation: Any) -> Operation:
        size = _bytes(operation)
        cycles = CYCLES[operation.type][size <= 2]
        if operation.type == "AddN":
            cycles += len(operation.inputs) - 2
        shape = self.extents(operation.outputs[0])
        return Operation(OpKind.ELEMENTWISE, operation.type, shape, size, cycles)

    def _sized(self, operation: Any, kind: OpKind) -> Operation:
        """Return an operation that is costed by the size of a tensor."""
        tensor = self._largest(operation, kind)
        size = tensor.dtype.size or 4
        return Operation(kind, operation.type, (joined(self.extents(tensor)),), size)

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


def _differentiated(operation: Any) -> str:
    """Return the name of what an operation is in the gradient of, empty if of nothing.

    Names in loops begin with those of the loop's own gradient.
    """
    *_, name = _GRADIENTS.split(operation.name)
    forward, inside, _ = name.partition("_grad/")
    return forward if inside and name != operation.name else ""


def _inside(operation: Any, met: _Met, at: int) -> _Met:
    """Return what is known of a graph inside of an operation.

    Those inside of a gradient hold the gradients of those inside of its operation.
    """
    name = _differentiated(operation) or operation.name
    return met.inner.setdefault((name, at), _Met())


def _taken(
    operation: Any, operations: Sequence[Any], results: Sequence[Any] | None
) -> set[int]:
    """Return which outputs of an operation others take, or are results."""
    if results is None:
        return set(range(len(operation.outputs)))
    names = {other.name for other in operations}
    wanted = {tensor.name for tensor in results}
    return {
        at
        for at, output in enumerate(operation.outputs)
        if output.name in wanted
        or any(user.name in names for user in output.consumers())
    }


def _repeated_for(body: Any, taken: set[int]) -> list[Any]:
    """Return the operations of a loop for what is taken of it, and add to that.

    A compiler leaves out what nobody takes, as the gradients of data.
    """
    position = {tensor.name: at for at, tensor in enumerate(body.inputs)}
    operations: list[Any] = []
    while True:
        wanted = [body.outputs[at] for at in taken]
        operations = needed(body.get_operations(), wanted)
        states = {
            position[tensor.name]
            for operation in operations
            for tensor in (*operation.inputs, *operation.outputs)
            if tensor.name in position
        }
        more = {at for at in states if at < len(body.outputs)} - taken
        if not more:
            return operations
        taken |= more


def _only_one(
    operation: Any, ruled: Mapping[str, tuple[Operation, ...]]
) -> tuple[Operation, ...] | None:
    """Return the composite inside of which gradients are added up, None for others."""
    first, *others = [ruled.get(origin(each).op.name) for each in operation.inputs]
    alone = first is not None and all(other is first for other in others)
    return first if alone and first and first[0].kind not in _PRODUCTS else None


def _reduces(operation: Any) -> bool:
    """Whether an operation makes fewer values than it takes."""
    if KINDS.get(operation.type) is not OpKind.REDUCTION:
        return False
    taken, made = operation.inputs[0].shape, operation.outputs[0].shape
    return bool(taken.num_elements() != made.num_elements())


def _merged(ops: list[Operation], sliced: bool) -> list[Operation]:
    """Return slices as one copy, if all grow with the batch or none does."""
    if not sliced or len({op.shape[0] < 0 for op in ops}) > 1:
        return ops
    return [replace(ops[0], shape=(sum(op.shape[0] for op in ops),))]


def _work(ops: Iterable[Operation]) -> float:
    """Compare branches by the values that they go over."""
    return sum(op.size_at(1) * abs(op.repeat) for op in ops)


def _bytes(operation: Any) -> int:
    """Return the bytes of a value that an operation computes with."""
    floats = [
        tensor.dtype.size
        for tensor in (*operation.outputs, *operation.inputs)
        if tensor.dtype.is_floating
    ]
    return max(floats, default=4)
