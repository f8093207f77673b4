"""Turn the program of one replica into that of several, operation by operation.

[Note: Replication]
A script's program is traced once, as the device's compiler would see it; on the host
there is one graph, in which every operation is copied once for each replica. What must
hold:

- Replicas run in lock-step: the copies stand in one graph or one loop body, and nothing
  but data and control dependencies orders them.
- A marked operation (`collectives.py`) is not copied. It becomes a reduction over all
  copies of its input, and the replica barrier: loops, conditions and calls with one
  inside are copied once for all replicas together (`joint_copies.py`), because a
  `tf.while_loop` of its own for each replica could not exchange values.
- Variables that the program writes have a copy for each replica, the first one the
  original (`replica_variables.py`); those that it only reads are shared.
- Operations that take a batch (`IteratorGetNext`) are chained over replicas: replica i
  takes batch i, in the order of the data. An enqueue becomes one, of stacked values.
- Random operations get a seed of their own for each replica, by their number in the
  graph and the device's seed, never by when they are copied.
- Exchanges between processes are chained, too: all processes must make them in the same
  order, and in a session each occupies a thread of a pool that may be too small.
- Control dependencies are copied, but for a recomputation (`given`), which must have no
  side effects: there, tensors that are given end the walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.collectives import (
    EXCHANGES,
    SHARED,
    collective_of,
)
from ipu_runtime.engine.build.replicas.joint_copies import (
    CopyGraph,
    copy_call,
    copy_loop,
    draws_inside,
    must_be_joined,
)
from ipu_runtime.engine.build.replicas.replica_variables import (
    DrawNumbers,
    ReplicaVariables,
    draws,
    written_handles,
)
from ipu_runtime.frameworks.inner_graphs import (
    BRANCHES,
    CONDITIONS,
    LOOPS,
    inner_graphs,
)
from ipu_runtime.frameworks.private_names import COLOCATION
from ipu_runtime.frameworks.tensorflow_graphs import copy_handle_data, share_functions
from ipu_runtime.system.emulated_device import device_draws

_HIDDEN = (COLOCATION,)
"""Attributes that name other operations of the original graph."""


@dataclass(frozen=True)
class Copies:
    """A traced program, copied for every replica."""

    outputs: list[list[Any]]
    """Outputs of the traced graph, by replica."""
    control_outputs: list[Any]
    """Operations that make the programs complete."""


def replicate(
    source: Any,
    arguments: Sequence[Sequence[Any]],
    variables: ReplicaVariables,
    must_run: Sequence[Any] = (),
    given: Mapping[str, Any] | None = None,
) -> Copies:
    """Copy a traced graph into the current one, once for every replica.

    `arguments` holds the values of the graph's own inputs, by replica. When tensors
    are `given` by name, only what the outputs need besides is copied, without side
    effects.
    """
    copier = _Copier(variables, arguments, source, given)
    wanted = [*(tensor.op for tensor in source.outputs), *must_run]
    for operation in in_order(wanted, given):
        copier.copy(operation)
    return Copies(
        [
            [copier.tensor(tensor, replica) for tensor in source.outputs]
            for replica in range(variables.replicas)
        ],
        [copy for operation in must_run for copy in copier.operations[operation.name]],
    )


def in_order(
    wanted: Sequence[Any], given: Mapping[str, Any] | None = None
) -> Iterator[Any]:
    """Yield what the wanted operations need, each after its inputs.

    When tensors are given, nothing is needed for them, and nothing is waited for.
    """
    done: set[str] = set()
    stack = [(operation, False) for operation in reversed(wanted)]
    while stack:
        operation, expanded = stack.pop()
        if operation.name in done:
            continue
        if expanded:
            done.add(operation.name)
            yield operation
            continue
        stack.append((operation, True))
        if given and operation.outputs and operation.outputs[0].name in given:
            continue
        needed = [tensor.op for tensor in operation.inputs]
        waited_for = operation.control_inputs if given is None else ()
        for other in (*waited_for, *needed):
            if other.name not in done:
                stack.append((other, False))


def copied_attributes(operation: Any) -> dict[str, Any]:
    """Return the attributes that a copy in another graph may have."""
    attributes = operation.node_def.attr.items()
    return {key: value for key, value in attributes if key not in _HIDDEN}


class _Copier:
    def __init__(
        self,
        variables: ReplicaVariables,
        arguments: Sequence[Sequence[Any]],
        source: Any,
        given: Mapping[str, Any] | None,
    ) -> None:
        self.operations: dict[str, list[Any]] = {}
        self._variables = variables
        self._replicas = variables.replicas
        self._every = range(self._replicas)
        self._waits = given is None
        self._tensors = [dict(given or {}) for _ in range(self._replicas)]
        self._last_read: dict[str, Any] = {}
        self._last_exchange: list[Any] = []
        self._draw_numbers = DrawNumbers()
        self._target = tf.compat.v1.get_default_graph()
        share_functions(source, self._target)
        # A branch of a condition gets its captured tensors as arguments too.
        captures = [] if len(arguments[0]) == len(source.inputs) else source.captures
        own = source.inputs[: len(source.inputs) - len(captures)]
        written = written_handles(source)
        for replica in range(self._replicas):
            values = self._tensors[replica]
            for inner, value in zip(own, arguments[replica], strict=True):
                values[inner.name] = value
            for outer, inner in captures:
                values[inner.name] = (
                    variables.handle(outer, replica)
                    if inner.name in written and variables.owns(outer)
                    else outer
                )

    def tensor(self, tensor: Any, replica: int) -> Any:
        """Return a replica's copy of a tensor."""
        return self._tensors[replica][tensor.name]

    def copy(self, operation: Any) -> None:
        """Copy an operation for all replicas; its inputs are copied already."""
        if all(tensor.name in self._tensors[0] for tensor in operation.outputs) and (
            operation.outputs
        ):
            self.operations[operation.name] = []
            return
        kind = collective_of(operation)
        if kind in EXCHANGES and self._variables.exchange:
            inputs = [
                self.tensor(operation.inputs[0], replica)
                for replica in range(self._replicas)
            ]
            with tf.control_dependencies(self._last_exchange):
                results = EXCHANGES[kind](inputs, operation, self._variables.instance)
            self._exchanged(results[0].op)
            self._store(operation, [[result] for result in results])
            self.operations[operation.name] = [result.op for result in results]
        elif kind == "enqueue" and self._replicas > 1:
            self.operations[operation.name] = [self._enqueue(operation)]
        elif SHARED in operation.node_def.attr:
            copy = self._copy_for(operation, 0, [])
            self._store(operation, [copy.outputs] * self._replicas)
            self.operations[operation.name] = [copy]
        elif must_be_joined(operation, self._variables.exchange):
            with tf.control_dependencies(self._last_exchange):
                outputs, done = self._copy_inner(
                    operation, self._every, self._variables
                )
            self._exchanged(done)
            self._store(operation, outputs)
            self.operations[operation.name] = [done]
        elif draws_inside(operation):
            # Each replica draws for itself, and loops as often as its draws demand.
            device, alone = device_draws(), []
            before = device.numbered
            for replica in self._every:
                device.numbered = before
                variables = self._variables.alone(replica)
                alone.append(self._copy_inner(operation, [replica], variables))
            self._store(operation, [outputs[0] for outputs, _ in alone])
            self.operations[operation.name] = [done for _, done in alone]
        else:
            copies: list[Any] = []
            for replica in self._every:
                copies.append(self._copy_in_turn(operation, replica))
            self._store(operation, [copy.outputs for copy in copies])
            self.operations[operation.name] = copies

    def _exchanged(self, done: Any) -> None:
        """Let the next exchange wait: all processes must make them in one order.

        In a session each occupies a thread, of which there may be too few for all.
        """
        if self._variables.instance.count > 1:
            self._last_exchange = [done]

    def _store(self, operation: Any, outputs: Sequence[Sequence[Any]]) -> None:
        for replica, tensors in enumerate(outputs):
            for original, copy in zip(operation.outputs, tensors, strict=True):
                self._tensors[replica][original.name] = copy

    def _copy_in_turn(self, operation: Any, replica: int) -> Any:
        """Copy an operation; those that take a batch do it one after the other."""
        if operation.type != "IteratorGetNext":
            return self._copy_for(operation, replica, [])
        iterator = operation.inputs[0].name
        after = [self._last_read[iterator]] if iterator in self._last_read else []
        copy = self._copy_for(operation, replica, after)
        self._last_read[iterator] = copy
        return copy

    def _copy_for(self, operation: Any, replica: int, after: Sequence[Any]) -> Any:
        inputs = [self.tensor(tensor, replica) for tensor in operation.inputs]
        attributes = copied_attributes(operation)
        if draws(operation):
            number = self._variables.first + replica
            self._draw_numbers.reseed(attributes, operation.name, number)
        with tf.control_dependencies([*self._controls(operation, replica), *after]):
            copy = self._target.create_op(
                operation.type,
                inputs,
                [output.dtype for output in operation.outputs],
                name=f"{operation.name}/replica_{replica}",
                attrs=attributes,
                op_def=operation.op_def,
            )
        for original, output in zip(operation.outputs, copy.outputs, strict=True):
            output.set_shape(original.shape)
            copy_handle_data(original, output)
        return copy

    def _controls(self, operation: Any, replica: int) -> list[Any]:
        controls: list[Any] = []
        for control in operation.control_inputs if self._waits else ():
            copies = self.operations[control.name]
            controls.extend(copies[replica : replica + 1] or copies[:1])
        return controls

    def _enqueue(self, operation: Any) -> Any:
        """Put the values of all replicas into an outfeed as one element."""
        queue, *_ = operation.inputs
        values = [
            tf.stack([self.tensor(part, number) for number in range(self._replicas)])
            for part in list(operation.inputs)[1:]
        ]
        controls = [
            control
            for replica in range(self._replicas)
            for control in self._controls(operation, replica)
        ]
        with tf.control_dependencies(controls):
            return tf.raw_ops.QueueEnqueueV2(
                handle=self.tensor(queue, 0), components=values
            )

    def _copy_inner(
        self, operation: Any, replicas: Sequence[int], variables: ReplicaVariables
    ) -> tuple[Sequence[Sequence[Any]], Any]:
        """Copy a condition, a loop or a call as one for some replicas.

        Returns their outputs, and what ends last.
        """

        def copy_graph(graph: Any, values: Sequence[Sequence[Any]]) -> Copies:
            return replicate(graph, values, variables, graph.control_outputs)

        if operation.type in BRANCHES:
            return self._copy_branches(operation, replicas, copy_graph)
        inputs = [
            [self.tensor(tensor, replica) for tensor in operation.inputs]
            for replica in replicas
        ]
        copy = copy_loop if operation.type in LOOPS else copy_call
        controls = [item for r in replicas for item in self._controls(operation, r)]
        with tf.control_dependencies(controls):
            return copy(operation, inputs, copy_graph)

    def _copy_branches(
        self, operation: Any, replicas: Sequence[int], copy_graph: CopyGraph
    ) -> tuple[Sequence[Sequence[Any]], Any]:
        predicates = [self.tensor(operation.inputs[0], r) for r in replicas]
        arguments = [
            [self.tensor(tensor, replica) for tensor in list(operation.inputs)[1:]]
            for replica in replicas
        ]

        def runner(graph: Any) -> Callable[[], list[Any]]:
            def run() -> list[Any]:
                copies = copy_graph(graph, arguments)
                flat = [tensor for outputs in copies.outputs for tensor in outputs]
                with tf.control_dependencies(copies.control_outputs):
                    return [tf.constant(True), *(tf.identity(item) for item in flat)]

            return run

        # TensorFlow leaves out waits that a predicate has already: take them all.
        controls = [item for r in replicas for item in self._controls(operation, r)]
        controls += [predicate.op for predicate in predicates]
        number, runners = predicates[0], [*map(runner, inner_graphs(operation))]
        with tf.control_dependencies(controls):
            if operation.type in CONDITIONS:
                done, *flat = tf.cond(tf.cast(number, tf.bool), *runners)
            else:
                done, *flat = tf.switch_case(number, runners)
        size = len(operation.outputs)
        firsts = range(0, size * len(replicas), size) if size else [0] * len(replicas)
        return [flat[first : first + size] for first in firsts], done.op
