"""A `tf.function` that runs on all replicas of a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.replica_variables import (
    DRAWN_SEED,
    ReplicaVariables,
    is_random_state,
)
from ipu_runtime.engine.build.replicas.replication import replicate
from ipu_runtime.frameworks.inner_graphs import CALLS
from ipu_runtime.frameworks.tensorflow_graphs import FuncGraph
from ipu_runtime.frameworks.tensorflow_variables import plain_variable
from ipu_runtime.system.instance_exchange import (
    lost_instances_named,
    take_from,
)
from ipu_runtime.system.instances import Instance


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
                    if variable.trainable and self.instance.count > 1:
                        # It may have been made in a function, by each process itself.
                        variable.assign(take_from(0, variable, self.instance))
                    self.made[key] = [
                        plain_variable(variable.read_value())
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
        self._move_draws(handles, self.first)
        for handle in filter(self.owns, handles):
            original = self.originals[id(handle)]
            value = original.read_value()
            draws = is_random_state(original.name.partition(":")[0])
            for copy in self.made[id(handle)]:
                if draws:
                    value += tf.cast([DRAWN_SEED, 0], value.dtype)
                copy.assign(value)

    def restore(self, handles: Sequence[Any]) -> None:
        """Let the originals have the seed again that all processes have."""
        self._move_draws(handles, -self.first)

    def _move_draws(self, handles: Sequence[Any], replicas: int) -> None:
        for handle in filter(self.owns, handles) if replicas else ():
            original = self.originals[id(handle)]
            if is_random_state(original.name.partition(":")[0]):
                moved = original.read_value() + tf.cast(
                    [replicas * DRAWN_SEED, 0], original.dtype
                )
                original.assign(moved)


class ReplicatedFunction:
    """Runs a function on some replicas, and returns the first one's results.

    Every call starts all replicas from the variables of the first, which are those
    that the host sees.
    """

    def __init__(
        self, function: Callable[..., Any], replicas: int, instance: Instance
    ) -> None:
        self._function = function
        self._variables = EagerReplicaVariables(
            replicas, replicas * instance.index, instance
        )
        self._program = tf.function(self._build, autograph=False)

    def run(self, traced: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run the replicas in lock-step.

        Args:
            traced: the function as it is traced for these arguments.
        """
        self._variables.make(_in_order(traced.graph))
        with lost_instances_named(self._variables.instance):
            return self._program(*args, **kwargs)

    def _build(self, *args: Any, **kwargs: Any) -> Any:
        graph = FuncGraph("ipu_replica")
        with graph.as_default():
            results = self._function(*args, **kwargs)
            flat = tf.nest.flatten(results, expand_composites=True)
            graph.outputs = [item for item in flat if item is not None]
        calls = [item for item in graph.get_operations() if item.type in CALLS]
        captured = [outer for outer, _ in graph.captures]
        self._variables.broadcast(captured)
        every = range(self._variables.replicas)
        copies = replicate(graph, [() for _ in every], self._variables, calls)
        with tf.control_dependencies(copies.control_outputs):
            first = iter([tf.identity(item) for item in copies.outputs[0]])
            self._variables.restore(captured)
        return tf.nest.pack_sequence_as(
            results,
            [None if item is None else next(first) for item in flat],
            expand_composites=True,
        )


def _in_order(graph: Any) -> list[Any]:
    """Return a graph's variables as all processes have them in order: by first use."""
    place = {id(outer): number for number, (outer, _) in enumerate(graph.captures)}
    return sorted(graph.variables, key=lambda item: place.get(id(item.handle), -1))
