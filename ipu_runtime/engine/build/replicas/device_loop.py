"""A loop inside TensorFlow that runs a program on every replica of a device."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.collectives import mark_shared
from ipu_runtime.engine.build.replicas.joint_copies import has_collective
from ipu_runtime.engine.build.replicas.replica_variables import (
    PROGRAM_STATE,
    FirstValues,
    ReplicaVariables,
)
from ipu_runtime.engine.build.replicas.replication import replicate
from ipu_runtime.engine.describe.placement import Placement, current_placement
from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.engine.numerics.half_models import configured_half
from ipu_runtime.frameworks.tensorflow_graphs import (
    FuncGraph,
    running_in_order,
    set_attribute,
)
from ipu_runtime.frameworks.tensorflow_variables import plain_variable
from ipu_runtime.frameworks.types import Graph, Operation, Tensor
from ipu_runtime.plan.rules.count_rules import check_updates
from ipu_runtime.system.instances import Instance

Body = Callable[..., tuple[Sequence[Any], Sequence[Any]]]
"""Takes loop-carried tensors; returns their new values, and operations to run."""


class NotReplicatedError(ValueError):
    """Replicas would train apart, because nothing is exchanged between them."""


@dataclass(frozen=True)
class DeviceLoop:
    """A loop as it stands in the host's graph."""

    carried: list[list[Any]]
    """Final values of the loop-carried tensors, by replica."""
    operation: Any
    """Completes when all iterations are done."""
    broadcasts: list[Any] = field(default_factory=list)
    """Bring every replica's variables to the state of the first."""
    accumulation: int = 1
    """Iterations of one weight update, where an optimizer accumulates gradients."""
    instance: Instance = field(default_factory=Instance)
    """This process among those whose replicas exchange values."""
    sums: bool = False
    """Whether what is accumulated is summed, not averaged."""


def build_loop(
    condition: Callable[..., Any],
    body: Body,
    carried: Sequence[Any],
    replicas: Callable[[], int],
    iterations: int | None = None,
    needs_exchange: Callable[[], bool] = lambda: False,
    broadcast_first: bool = False,
) -> DeviceLoop:
    """Build a loop whose body is traced once and runs on all replicas in lock-step.

    The number of replicas is asked for after tracing, because it depends on how many
    IPUs the body uses, and so is whether they must exchange something; inside of a
    program it is the program that is replicated.
    `condition` sees the first replica's carried tensors.
    """
    carried = [tf.convert_to_tensor(value) for value in carried]
    traced, must_run, waiting = _trace(body, carried)
    around = _waiting.get()
    if around is not None:
        around.tell.extend(waiting.tell)
    count = replicas() if around is None else 1
    for tell in waiting.tell if around is None else ():
        tell(count)
    placement = current_placement() or Placement()
    instance = placement.instance if around is None else Instance()
    every = count * instance.count
    if every > 1 and needs_exchange() and not has_collective(traced):
        raise NotReplicatedError(
            f"This is not a valid replicated training graph: {every} replicas were "
            "asked for, but no gradient crosses between them. Wrap the optimizer in "
            "ipu.optimizers.CrossReplicaOptimizer."
        )
    for multiple in waiting.multiples:
        if iterations is not None:
            raise_for(check_updates(iterations, multiple))
    variables = ReplicaVariables(count, count * instance.index, instance)

    def one_iteration(*flat: Any) -> list[Any]:
        by_replica = _split(flat, count)
        copies = replicate(traced, by_replica, variables, must_run)
        results = [tensor for outputs in copies.outputs for tensor in outputs]
        with tf.control_dependencies(copies.control_outputs):
            return [tf.identity(tensor) for tensor in results]

    if count > 1:
        variables.create(traced)
    before = [
        *waiting.broadcasts,
        *(variables.broadcasts if broadcast_first else ()),
    ]
    if around is not None:
        around.broadcasts.extend(before)
    with tf.control_dependencies(before if around is None else []):
        start = [tf.identity(value) for value in carried] * count
        flat = tf.while_loop(
            lambda *values: condition(*values[: len(carried)]),
            one_iteration,
            start,
            parallel_iterations=1,
        )
    flat = list(flat) if isinstance(flat, (list, tuple)) else [flat]
    if count > 1:
        for tensor in flat:
            mark_shared(tensor.op)
            for source in tensor.op.inputs:
                mark_shared(source.op)
    return DeviceLoop(
        _split(flat, count),
        tf.group(*flat),
        variables.broadcasts,
        max(waiting.multiples, default=1),
        instance,
        waiting.sums,
    )


@dataclass(frozen=True)
class ReplicatedProgram:
    """A program for a number of replicas, as it stands in a graph."""

    done: Operation
    """Completes when all replicas have."""
    outputs: Sequence[Tensor]
    """Of the first replica."""
    first_values: FirstValues


@dataclass(frozen=True)
class TracedProgram:
    """A program of one replica, which can be built for any number of them."""

    graph: Graph
    arguments: Sequence[Tensor]
    must_run: Sequence[Operation]
    """Operations that run although no output needs them."""
    wishes: _Trace
    instance: Instance
    """This process among those whose replicas exchange values."""

    def build(self, replicas: int) -> ReplicatedProgram:
        """Build it into the current graph."""
        for tell in self.wishes.tell:
            tell(replicas)
        variables = ReplicaVariables(
            replicas, replicas * self.instance.index, self.instance
        )
        if replicas > 1:
            variables.create(self.graph)
        before = [*variables.broadcasts, *self.wishes.broadcasts]
        with tf.control_dependencies(before):
            values = [
                [tf.identity(item) for item in self.arguments] for _ in range(replicas)
            ]
            copies = replicate(self.graph, values, variables, self.must_run)
        every = [tensor.op for outputs in copies.outputs for tensor in outputs]
        captured = [outer for outer, _ in self.graph.captures]
        return ReplicatedProgram(
            tf.group(*every, *copies.control_outputs),
            copies.outputs[0],
            FirstValues(
                list(filter(variables.owns, captured)), self.instance, variables.first
            ),
        )


def trace_program(body: Body, arguments: Sequence[Tensor]) -> TracedProgram:
    """Trace a program without a loop of ours around it."""
    graph, must_run, wishes = _trace(body, arguments)
    if wishes.multiples:
        raise ValueError(
            "Gradients are accumulated over several mini-batches, which needs a loop: "
            "ipu.loops.repeat."
        )
    # Inside of a program it is the program that exchanges values with others.
    inside = _waiting.get() is not None
    placement = current_placement() or Placement()
    instance = Instance() if inside else placement.instance
    return TracedProgram(graph, arguments, must_run, wishes, instance)


def _split(flat: Sequence[Any], replicas: int) -> list[list[Any]]:
    size = len(flat) // replicas
    return [list(flat[size * r : size * (r + 1)]) for r in range(replicas)]


@dataclass
class _Trace:
    """What the program being traced asks for."""

    tell: list[Callable[[int], None]] = field(default_factory=list)
    multiples: list[int] = field(default_factory=list)
    sums: bool = False
    broadcasts: list[Any] = field(default_factory=list)
    """Of values that it keeps; done before the program starts."""


_waiting: ContextVar[_Trace | None] = ContextVar("waiting", default=None)


def when_replicas_known(tell: Callable[[int], None]) -> None:
    """Call `tell` with the number of replicas of the program being traced."""
    waiting = _waiting.get()
    if waiting is not None:
        waiting.tell.append(tell)


def run_before_program(operation: Any) -> None:
    """Run an operation of the host before every run of the program being traced."""
    waiting = _waiting.get()
    if waiting is None:
        raise ValueError(
            "A value that is kept from iteration to iteration needs a program around "
            "it: ipu.ipu_compiler.compile or ipu.loops.repeat."
        )
    waiting.broadcasts.append(operation)


def require_multiple_of(count: int, *, sums: bool) -> None:
    """Let the loop being traced run a multiple of `count` iterations only.

    Args:
        count: Mini-batches of a weight update.
        sums: Whether the update takes their sum.
    """
    waiting = _waiting.get()
    if waiting is None:
        raise ValueError(
            f"Accumulating gradients over {count} mini-batches needs a loop around "
            "it: ipu.loops.repeat, or an estimator."
        )
    waiting.multiples.append(count)
    waiting.sums |= sums


@contextmanager
def waiting_for_replicas() -> Iterator[list[Callable[[int], None]]]:
    """Collect who wants to know the replicas of the program traced inside."""
    waiting = _Trace()
    token = _waiting.set(waiting)
    try:
        yield waiting.tell
    finally:
        _waiting.reset(token)


def _trace(body: Body, carried: Sequence[Any]) -> tuple[Any, list[Any], _Trace]:
    """Trace the body of one replica into a graph of its own."""
    outside = tf.compat.v1.get_default_graph()
    graph = FuncGraph("ipu_program")
    # Inside of a `tf.function` everything runs that a script has written down.
    order = running_in_order(outside)
    waiting = _Trace()
    token = _waiting.set(waiting)
    try:
        with graph.as_default(), order, configured_half():
            for value in carried:
                placeholder = tf.compat.v1.placeholder(value.dtype, value.shape)
                graph.inputs.append(placeholder)
            outputs, operations = body(*graph.inputs[: len(carried)])
            graph.outputs = [tf.identity(output) for output in outputs]
    finally:
        _waiting.reset(token)
    automatic = getattr(order, "ops_which_must_run", ())
    must_run = {
        item.name: item for item in (*operations, *automatic) if item is not None
    }
    return graph, list(must_run.values()), waiting


_kept: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
"""Eager variables, by the graph of the function that uses them."""


class ProgramState:
    """A tensor that each replica has for itself.

    Inside of a `tf.function` it also outlasts the call, as a variable would.
    """

    def __init__(self, shape: Sequence[int], dtype: Any) -> None:
        self._dtype = dtype
        function = tf.compat.v1.get_default_graph()
        with tf.init_scope():
            if tf.executing_eagerly():
                # Not `tf.Variable`: functions refuse those when they are traced again.
                self._variable = plain_variable(tf.zeros(shape, dtype))
                _kept.setdefault(function, []).append(self._variable)
                return
        self._variable = None
        with tf.init_scope(), tf.control_dependencies(None):
            name = tf.compat.v1.get_default_graph().unique_name("program_state")
            self._handle = tf.raw_ops.VarHandleOp(
                dtype=dtype, shape=shape, shared_name=name, name=name
            )
            set_attribute(self._handle.op, PROGRAM_STATE, True)
            reset = tf.raw_ops.AssignVariableOp(
                resource=self._handle, value=tf.zeros(shape, dtype)
            )
        run_before_program(reset)

    def read(self) -> Any:
        """Return the value now."""
        if self._variable is not None:
            return self._variable.read_value()
        return tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=self._dtype)

    def write(self, value: Any) -> Any:
        """Return what writes a new value."""
        if self._variable is not None:
            return self._variable.assign(value)
        return tf.raw_ops.AssignVariableOp(resource=self._handle, value=value)
