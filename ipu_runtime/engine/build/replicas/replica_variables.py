"""Variables that every replica has for itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.collectives import SHARED
from ipu_runtime.engine.build.replicas.random_seeds import DRAWN_SEED
from ipu_runtime.system.instances import Instance

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
