"""Variables that every replica has for itself, and the values that all begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.collectives import SHARED
from ipu_runtime.frameworks.tensorflow_graphs import eagerly
from ipu_runtime.system.emulated_device import device_draws
from ipu_runtime.system.instance_exchange import take_all_from
from ipu_runtime.system.instances import Instance

DRAWN_SEED = 7_368_787
"""Distance between the random seeds of neighbouring replicas."""


def draws(operation: Any) -> bool:
    """Tell whether an operation draws random numbers that follow each other."""
    return operation.op_def.is_stateful and "seed2" in operation.node_def.attr


class DrawNumbers:
    """Numbers the operations of a graph that draw, the same for all replicas."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}

    def reseed(self, attributes: Any, name: str, replica: int) -> None:
        """Let an operation draw what no other does, and what the device's seed says.

        TensorFlow seeds it at random where neither it nor the device has a seed.
        """
        seed, device = attributes["seed"], device_draws()
        seeded = seed.i or attributes["seed2"].i
        if device.resets:
            seed.i += 1 + device.seed * DRAWN_SEED
            if not seeded:
                attributes["seed2"].i = self._number_of(name)
        if (seeded or device.resets) and not device.identical_replicas:
            attributes["seed2"].i += replica * DRAWN_SEED

    def _number_of(self, name: str) -> int:
        if name not in self._number:
            self._number[name] = device_draws().numbered
            device_draws().numbered += 1
        return self._number[name]


_READS = (
    "ReadVariableOp",
    "VariableShape",
    "VarIsInitializedOp",
    "ResourceGather",
    "ResourceGatherNd",
)
PROGRAM_STATE = "_ipu_program_state"
"""Marks a variable that is zero whenever a program starts."""


@dataclass
class ReplicaVariables:
    """The copies of variables that replicas beyond the first work on."""

    replicas: int
    first: int = 0
    """Number of the first replica; the others have the next ones."""
    instance: Instance = field(default_factory=Instance)
    """This process among those whose replicas exchange values with these."""
    copies: dict[str, list[Any]] = field(default_factory=dict)
    broadcasts: list[Any] = field(default_factory=list)
    """Operations that give every copy the value that the first replica has."""

    @property
    def exchange(self) -> bool:
        """Whether there is anybody to exchange values with."""
        return self.replicas * self.instance.count > 1

    def owns(self, handle: Any) -> bool:
        """Whether a captured tensor is a variable that replicas may copy."""
        return not hasattr(handle, "numpy") and handle.op.type == "VarHandleOp"

    def handle(self, handle: Any, replica: int) -> Any:
        """Return the variable of a replica; the first has the original."""
        if replica == 0:
            return handle
        if handle.name not in self.copies:
            with tf.init_scope(), tf.control_dependencies(None):
                self.copies[handle.name] = [
                    self._copy(handle, number) for number in range(1, self.replicas)
                ]
        return self.copies[handle.name][replica - 1]

    def alone(self, replica: int) -> ReplicaVariables:
        """Return the variables of one replica, for what it does without the others."""
        return _OneReplica(1, self.first + replica, program=self, number=replica)

    def create(self, source: Any) -> None:
        """Make the copies that a traced graph needs, before a loop refers to them."""
        written = written_handles(source)
        for outer, inner in source.captures:
            if inner.name in written and self.owns(outer):
                self.handle(outer, 1)

    def _copy(self, handle: Any, replica: int) -> Any:
        # The copy has no initializer of its own: it is always broadcast to first.
        node = handle.op.node_def
        dtype = tf.as_dtype(node.attr["dtype"].type)
        shape = tf.TensorShape(node.attr["shape"].shape)
        copy = tf.raw_ops.VarHandleOp(
            dtype=dtype,
            shape=shape,
            shared_name=f"{handle.op.name}/replica_{replica}",
            name=f"{handle.op.name}/replica_{replica}",
        )
        if PROGRAM_STATE in node.attr:
            value = tf.zeros(shape, dtype)
        else:
            value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
        if is_random_state(handle.op.name):
            value += tf.cast(tf.constant([replica * DRAWN_SEED, 0]), dtype)
        self.broadcasts.append(tf.raw_ops.AssignVariableOp(resource=copy, value=value))
        return copy


@dataclass
class _OneReplica(ReplicaVariables):
    """Those of a replica of a larger program."""

    program: ReplicaVariables = field(kw_only=True)
    number: int = field(kw_only=True)

    def owns(self, handle: Any) -> bool:
        return self.program.owns(handle)

    def handle(self, handle: Any, replica: int) -> Any:
        return self.program.handle(handle, self.number)


def is_random_state(name: str) -> bool:
    """Tell whether a variable is what a Keras layer draws random numbers from."""
    return name.endswith("seed_generator_state")


def written_handles(source: Any) -> set[str]:
    """Return the names of a graph's inputs that it may write to."""
    return {
        tensor.name
        for operation in source.get_operations()
        if operation.type not in _READS and SHARED not in operation.node_def.attr
        for tensor in operation.inputs
        if tensor.dtype == tf.resource
    }


class FirstValues:
    """Gives the first process's values to all, when a session has some to give."""

    def __init__(
        self, handles: Sequence[Any], instance: Instance, first_replica: int
    ) -> None:
        """Prepare it in the current graph, which may take no more operations later."""
        self.instance = instance
        """This process among those that take the values."""
        self._first_replica = first_replica
        self._handles = list(handles) if instance.count > 1 else []
        with tf.control_dependencies(None):
            types = [_type_of(handle) for handle in self._handles]
            self._values = [
                tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
                for handle, dtype in zip(self._handles, types, strict=True)
            ]
            self._given = [tf.compat.v1.placeholder(dtype) for dtype in types]
            self._assigned = [
                tf.raw_ops.AssignVariableOp(resource=handle, value=value)
                for handle, value in zip(self._handles, self._given, strict=True)
            ]

    def take(self, session: Any) -> None:
        """Take the values; all processes must do it."""
        if not self._handles:
            return
        own = session.run(self._values)
        with eagerly():
            taken = take_all_from(0, list(map(tf.constant, own)), self.instance)
            values = [item.numpy() for item in taken]
        for place, handle in enumerate(self._handles):
            if is_random_state(handle.op.name):
                # Replicas of all processes draw as if they were in one.
                shift = [self._first_replica * DRAWN_SEED, 0]
                values[place] = (values[place] + shift).astype(own[place].dtype)
        session.run(self._assigned, dict(zip(self._given, values, strict=True)))


def _type_of(handle: Any) -> Any:
    return tf.as_dtype(handle.op.node_def.attr["dtype"].type)
