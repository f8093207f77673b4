"""A `tf.function` that runs on all replicas of a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import func_graph as func_graph_module
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from ipu_runtime.engine.inner_graphs import CALLS
from ipu_runtime.engine.replica_variables import DRAWN_SEED, ReplicaVariables
from ipu_runtime.engine.replication import replicate


@dataclass
class EagerReplicaVariables(ReplicaVariables):
    """Copies of variables that live outside of any graph."""

    originals: dict[int, Any] = field(default_factory=dict)
    """Variables by the identity of their handles."""
    made: dict[int, list[Any]] = field(default_factory=dict)
    """Their copies."""

    def make(self, variables: Sequence[Any]) -> None:
        """Copy variables, also where a function is being traced."""
        for variable in variables:
            key = id(variable.handle)
            if key not in self.originals:
                self.originals[key] = variable
                with tf.init_scope():
                    self.made[key] = [
                        ResourceVariable(variable.read_value(), trainable=False)
                        for _ in range(1, self.replicas)
                    ]

    def owns(self, handle: Any) -> bool:
        """Whether a captured tensor is one of the variables."""
        return id(handle) in self.originals

    def handle(self, handle: Any, replica: int) -> Any:
        """Return the variable of a replica; the first has the original."""
        return self.made[id(handle)][replica - 1].handle if replica else handle

    def broadcast(self, handles: Sequence[Any]) -> None:
        """Give every copy the value of the original, and random states of its own."""
        for handle in filter(self.owns, handles):
            original = self.originals[id(handle)]
            value = original.read_value()
            draws = "seed_generator_state" in original.name
            for copy in self.made[id(handle)]:
                if draws:
                    value += tf.cast([DRAWN_SEED, 0], value.dtype)
                copy.assign(value)


class ReplicatedFunction:
    """Runs a function on some replicas, and returns the first one's results.

    Every call starts all replicas from the variables of the first, which are those
    that the host sees.
    """

    def __init__(self, function: Callable[..., Any], replicas: int) -> None:
        self._function = function
        self._variables = EagerReplicaVariables(replicas)
        self._program = tf.function(self._build, autograph=False)

    def run(self, traced: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the replicas in lock-step.

        Args:
            traced: the function as it is traced for these arguments.
        """
        self._variables.make(traced.graph.variables)
        return self._program(*args, **kwargs)

    def _build(self, *args: Any, **kwargs: Any) -> Any:
        graph = func_graph_module.FuncGraph("ipu_replica")
        with graph.as_default():
            results = self._function(*args, **kwargs)
            flat = tf.nest.flatten(results, expand_composites=True)
            graph.outputs = [item for item in flat if item is not None]
        calls = [item for item in graph.get_operations() if item.type in CALLS]
        self._variables.broadcast([outer for outer, _ in graph.captures])
        every = range(self._variables.replicas)
        copies = replicate(graph, [() for _ in every], self._variables, calls)
        with tf.control_dependencies(copies.control_outputs):
            first = iter([tf.identity(item) for item in copies.outputs[0]])
        return tf.nest.pack_sequence_as(
            results,
            [None if item is None else next(first) for item in flat],
            expand_composites=True,
        )
