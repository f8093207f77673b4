"""One element of the data through a program that has feeds, as a graph of its own.

A program takes elements from infeeds and sends results to outfeeds, usually in a loop.
A compiled application is called with one element and returns its results, so the first
results in the program's order are computed from the first element alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.replication import copied_attributes, in_order
from ipu_runtime.frameworks.inner_graphs import (
    BRANCHES,
    CALLS,
    LOOPS,
    holds,
    inner_graphs,
)
from ipu_runtime.frameworks.tensorflow_graphs import (
    FuncGraph,
    copy_handle_data,
    share_functions,
)

_FEEDS = ("IteratorGetNext", "QueueEnqueueV2")
_WRITES = ("Assign", "ResourceApply", "ResourceScatter", "ResourceSparseApply")

_tracing: ContextVar[bool] = ContextVar("tracing_application", default=False)


@contextmanager
def application_traced() -> Iterator[None]:
    """Let feeds be used inside that have no data: only their shapes matter."""
    token = _tracing.set(True)
    try:
        yield
    finally:
        _tracing.reset(token)


def tracing_application() -> bool:
    """Tell whether a program is traced that will get its data later."""
    return _tracing.get()


@dataclass(frozen=True)
class ProgramStep:
    """A graph from startup values and one element to the results."""

    graph: Any
    arguments: list[Any]
    captured: list[tuple[Any, Any]]
    """Tensors and variables from outside of the program, and what they are inside."""
    streamed_inputs: list[Any]
    streamed_outputs: list[Any]
    outputs: list[Any]
    """What the program returns; only without feeds it can be computed."""


def program_step(source: Any, arguments: int) -> ProgramStep:
    """Return the step of a traced program, whose first inputs are the arguments."""
    if holds(source, lambda item: item.type.startswith(_WRITES)):
        raise NotImplementedError(
            "The program changes variables. Only inference can be compiled into an "
            "application."
        )
    copier = _StepCopier(source, arguments)
    copier.walk(copier.outermost)
    streamed = copier.streamed_outputs
    outputs = (
        [] if streamed else [copier.value(t, copier.outermost) for t in source.outputs]
    )
    # Nothing is left of the feeds but placeholders that nobody reads.
    captured = [pair for pair in copier.captured.values() if pair[1].consumers()]
    return ProgramStep(
        copier.target,
        copier.arguments,
        captured,
        copier.streamed_inputs,
        streamed,
        outputs,
    )


@dataclass
class _Scope:
    """A graph inside the program, while it is copied."""

    graph: Any
    values: dict[str, Any] = field(default_factory=dict)
    """Tensors that are copied already, by name."""
    origins: Mapping[str, Any] = field(default_factory=dict)
    """What the inputs that are resources are outside of the program, by name."""
    carried: frozenset[str] = frozenset()
    """Inputs that change from iteration to iteration."""


class _StepCopier:
    def __init__(self, source: Any, arguments: int) -> None:
        self.target = FuncGraph("application")
        self.captured: dict[int, tuple[Any, Any]] = {}
        self.streamed_inputs: list[Any] = []
        self.streamed_outputs: list[Any] = []
        self._queues: set[int] = set()
        self._iterators: set[int] = set()
        self.outermost = _Scope(
            source, origins={inner.name: outer for outer, inner in source.captures}
        )
        self.arguments = [
            self._placeholder(tensor) for tensor in source.inputs[:arguments]
        ]
        for tensor, copy in zip(source.inputs, self.arguments, strict=False):
            self.outermost.values[tensor.name] = copy

    def walk(self, scope: _Scope) -> None:
        """Find the first results for every outfeed, in the order of the program."""
        share_functions(scope.graph, self.target)
        for operation in scope.graph.get_operations():
            if operation.type == "QueueEnqueueV2":
                queue = id(scope.origins[operation.inputs[0].name])
                if queue not in self._queues:
                    self._queues.add(queue)
                    self.streamed_outputs += [
                        self.value(tensor, scope)
                        for tensor in list(operation.inputs)[1:]
                    ]
            elif _has_feed(operation):
                self._enter(operation, scope)

    def value(self, tensor: Any, scope: _Scope) -> Any:
        """Return the copy of a tensor, and make what it needs."""
        for operation in in_order([tensor.op], scope.values):
            if any(output.name not in scope.values for output in operation.outputs):
                self._copy(operation, scope)
        return scope.values[tensor.name]

    def _enter(self, operation: Any, scope: _Scope) -> None:
        """Put a called function, or one iteration of a loop, in its place."""
        if operation.type in BRANCHES:
            raise NotImplementedError(
                "The program uses a feed inside of a condition. An application takes "
                "and gives an element in every call."
            )
        graph = inner_graphs(operation)[-1]
        inner = _Scope(graph)
        if operation.type in LOOPS:
            inner.carried = frozenset(
                before.name
                for before, after in zip(graph.inputs, graph.outputs, strict=True)
                if before is not after
            )
        origins = {}
        for outside, inside in zip(operation.inputs, graph.inputs, strict=True):
            if outside.dtype in (tf.resource, tf.variant):
                origins[inside.name] = scope.origins.get(outside.name, outside)
            elif inside.name not in inner.carried:
                inner.values[inside.name] = self.value(outside, scope)
        inner.origins = origins
        self.walk(inner)
        if operation.type in CALLS:
            for outside, inside in zip(operation.outputs, graph.outputs, strict=True):
                scope.values[outside.name] = self.value(inside, inner)

    def _copy(self, operation: Any, scope: _Scope) -> None:
        if operation.type == "IteratorGetNext":
            self._stream(operation, scope)
            return
        name = operation.outputs[0].name
        if name in scope.carried or (operation.type in LOOPS and _has_feed(operation)):
            raise NotImplementedError(
                "The results of the program depend on values that it carries from "
                "iteration to iteration, which an application does not keep."
            )
        if name in scope.origins:
            scope.values[name] = self._capture(scope.origins[name])
            return
        inputs = [scope.values[tensor.name] for tensor in operation.inputs]
        copy = self.target.create_op(
            operation.type,
            inputs,
            [output.dtype for output in operation.outputs],
            name=operation.name,
            attrs=copied_attributes(operation),
            op_def=operation.op_def,
        )
        for original, output in zip(operation.outputs, copy.outputs, strict=True):
            output.set_shape(original.shape)
            copy_handle_data(original, output)
            scope.values[original.name] = output

    def _stream(self, operation: Any, scope: _Scope) -> None:
        """Let an element of the data be an input of the application."""
        iterator = id(scope.origins[operation.inputs[0].name])
        if iterator in self._iterators:
            raise NotImplementedError(
                "The first results of the program need more than one element of an "
                "infeed. An application gets one in every call."
            )
        self._iterators.add(iterator)
        for tensor in operation.outputs:
            copy = self._placeholder(tensor)
            scope.values[tensor.name] = copy
            self.streamed_inputs.append(copy)

    def _capture(self, outer: Any) -> Any:
        if id(outer) not in self.captured:
            self.captured[id(outer)] = outer, self._placeholder(outer)
        return self.captured[id(outer)][1]

    def _placeholder(self, tensor: Any) -> Any:
        with self.target.as_default():
            copy = tf.compat.v1.placeholder(tensor.dtype, tensor.shape)
            copy_handle_data(tensor, copy)
        return copy


def _has_feed(operation: Any) -> bool:
    graphs: Sequence[Any] = inner_graphs(operation)
    return any(holds(graph, lambda item: item.type in _FEEDS) for graph in graphs)
