"""Variables of a session, brought to the values that the first process has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.instance_exchange import take_all_from
from ipu_runtime.engine.build.replicas.random_seeds import DRAWN_SEED
from ipu_runtime.engine.build.replicas.replica_variables import is_random_state
from ipu_runtime.frameworks.tensorflow_graphs import eagerly
from ipu_runtime.system.instances import Instance


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
