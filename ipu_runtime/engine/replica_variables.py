"""Variables that every replica has for itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.collectives import SHARED

_READS = (
    "ReadVariableOp",
    "VariableShape",
    "VarIsInitializedOp",
    "ResourceGather",
    "ResourceGatherNd",
)
DRAWN_SEED = 7_368_787
"""Distance between the random seeds of neighbouring replicas."""


@dataclass
class ReplicaVariables:
    """The copies of variables that replicas beyond the first work on."""

    replicas: int
    copies: dict[str, list[Any]] = field(default_factory=dict)
    broadcasts: list[Any] = field(default_factory=list)
    """Operations that give every copy the value that the first replica has."""

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
        value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
        if handle.op.name.endswith("seed_generator_state"):
            value += tf.cast(tf.constant([replica * DRAWN_SEED, 0]), dtype)
        self.broadcasts.append(tf.raw_ops.AssignVariableOp(resource=copy, value=value))
        return copy


def written_handles(source: Any) -> set[str]:
    """Return the names of a graph's inputs that it may write to."""
    return {
        tensor.name
        for operation in source.get_operations()
        if operation.type not in _READS and SHARED not in operation.node_def.attr
        for tensor in operation.inputs
        if tensor.dtype == tf.resource
    }
