"""Which of TensorFlow's two ways to run a program suits it: graph executor or XLA.

The choice depends on the program and the number of its batches alone, never on a
clock, because the two ways may round differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.programs.executable import (
    ExecutorChoice,
    graph_executor,
)
from ipu_runtime.engine.describe.graph_walk import NO_BATCH, GraphWalk
from ipu_runtime.engine.describe.keras_reader import ReadModel
from ipu_runtime.frameworks.inner_graphs import LOOPS, all_operations, inner_graphs
from ipu_runtime.frameworks.tensorflow_graphs import traced
from ipu_runtime.plan.costs.op_costs import ADD
from ipu_runtime.plan.model.operations import Operation, OpKind

_WORTH_COMPILING_BATCHES = 64
_SMALL_FLOPS = 300e6
"""Of a batch's matrix products; the graph executor starts more than it computes."""
_MOST_PRODUCT_FLOPS = 100
"""For every value that the other operations go over.

Measured on CPUs: XLA fuses those others, the graph executor's matrix products are
the faster ones. Both are even here, for transformers as well as for recurrent cells.
"""
_LONG_RUN_FLOPS = 2e9
_SLOW = {
    OpKind.CONVOLUTION: "convolutions",
    OpKind.DATA_GRADIENT: "convolutions",
    OpKind.WEIGHT_GRADIENT: "convolutions",
    OpKind.POOL: "pooling",
    OpKind.POOL_GRADIENT: "pooling",
    OpKind.SORT: "sorting",
    OpKind.SCAN: "running sums",
}
"""Kinds that XLA runs several times slower on CPUs."""
_OTHERWISE = {
    "Assert": "checks",
    "CheckNumerics": "checks",
    "Print": "printing",
    "PrintV2": "printing",
    "Where": "shapes that depend on values",
    "Unique": "shapes that depend on values",
    "UniqueV2": "shapes that depend on values",
    "DynamicPartition": "shapes that depend on values",
}
"""Operations that XLA leaves out or may refuse."""
_PRODUCTS = (OpKind.MATMUL, OpKind.PRODUCT)


def is_worth_compiling(batches: int) -> bool:
    """Whether a call has so many batches that compiling pays."""
    return batches >= _WORTH_COMPILING_BATCHES


def choose_executor(program: Any) -> ExecutorChoice:
    """Choose by the operations that the loop of a traced program repeats."""
    loops = [item for item in program.get_operations() if item.type in LOOPS]
    walk, ops = GraphWalk(NO_BATCH, as_device=False), list[Operation]()
    types = {item.type for item in all_operations(program)}
    for loop in loops:
        ops += walk.plain_ops(inner_graphs(loop)[1].get_operations())
    kinds = {op.kind for op in ops}
    hindrances = [title for kind, title in _SLOW.items() if kind in kinds]
    if OpKind.RANDOM in kinds:
        # Other numbers, so that what is dropped would depend on the choice.
        hindrances.append("random numbers")
    hindrances += [title for name, title in _OTHERWISE.items() if name in types]
    hindrances += [*sorted(walk.unknown), *walk.remarks]
    if hindrances:
        return graph_executor(", ".join(dict.fromkeys(hindrances)))
    flops = _flops(ops)
    if flops < _SMALL_FLOPS:
        return ExecutorChoice(True, "small matrix products")
    share = flops / max(_other_values(ops), 1)
    told = f"{share:.0f} flops of matrix products per value of other operations"
    if share > _MOST_PRODUCT_FLOPS:
        return graph_executor(f"{told}, above {_MOST_PRODUCT_FLOPS}")
    return ExecutorChoice(True, told)


def _flops(ops: Iterable[Operation]) -> int:
    """Count products; those of loops are as much slower as if they were two."""
    products = (op for op in ops if op.kind in _PRODUCTS)
    return sum(
        2 * op.size_at(1) * op.repeat * (2 if op.repeat > 1 else 1) for op in products
    )


def _other_values(ops: Iterable[Operation]) -> float:
    """Count what all but products go over, fused operations one by one."""
    total = 0.0
    for op in ops:
        if op.kind in _PRODUCTS:
            continue
        passes = op.cycles / ADD.per_vector if op.kind is OpKind.ELEMENTWISE else 1
        total += op.size_at(1) * op.repeat * passes
    return total


def looks_outside(read: ReadModel, batch_size: int, micro_batches: int) -> bool:
    """Whether a pipeline run takes so long that it must be watched from inside."""
    return forward_flops(read, batch_size) * 3 * micro_batches > _LONG_RUN_FLOPS


def forward_flops(read: ReadModel, batch_size: int) -> float:
    """Return the work of a forward pass, guessed from weights if not known."""
    if read.spec is not None:
        return float(sum(layer.flops for layer in read.spec.layers) * batch_size)
    weights: list[Any] = [
        weight
        for call in read.graph.calls
        for weight in getattr(call.operation, "trainable_weights", ())
    ]
    return float(sum(2 * _size(weight) for weight in weights) * batch_size)


def _size(weight: Any) -> int:
    size = 1
    for extent in weight.shape:
        size *= int(extent)
    return size


class ChosenFunction:
    """Runs Python code in TensorFlow, compiled by XLA where that is faster."""

    def __init__(self, function: Callable[..., Any], refused: str) -> None:
        """Take the code, and why it must not be compiled, if it must not."""
        self._in_graph = traced(function)
        # Traced by itself: gradients of loops look otherwise where XLA compiles them.
        self._compiled = traced(function, jit_compile=True)
        self.choice = graph_executor(refused) if refused else None
        """None until the first call."""

    def __call__(self, *args: Any) -> Any:
        """Run it."""
        if self.choice is None:
            return self._first(*args)
        return (self._compiled if self.choice.compiled else self._in_graph)(*args)

    def _first(self, *args: Any) -> Any:
        choice = choose_executor(self._in_graph.get_concrete_function(*args).graph)
        self.choice = choice
        if choice.compiled:
            try:
                return self._compiled(*args)
            except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
                # XLA refuses before anything has happened: every time or never.
                self.choice = graph_executor("XLA cannot compile it")
        return self._in_graph(*args)
