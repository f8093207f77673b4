"""The global step: training counts it on the device, so that schedules can read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.tensorflow_variables import ASSIGNMENTS


def count_steps(steps: int, after: Sequence[Any]) -> Any:
    """Return an operation that advances the step, after everything that reads it."""
    step = tf.compat.v1.train.get_global_step()
    with tf.control_dependencies([*after, *_users(step)]):
        return step.assign_add(steps, read_value=False)


def check_step_untouched() -> None:
    """Raise if the program being built advances the global step itself."""
    step = tf.compat.v1.train.get_global_step()
    if any(operation.type in ASSIGNMENTS for operation in _users(step)):
        raise ValueError(
            "Illegal increment of the `global_step` in model_fn: the estimator "
            "counts steps itself. Leave out `global_step` in minimize()."
        )


def _users(step: Any) -> list[Any]:
    """Return the operations of the program being built that use the step."""
    graph = tf.compat.v1.get_default_graph()
    inner = {outer.name: inner.name for outer, inner in graph.captures}
    name = inner.get(step.handle.name)
    return [
        operation
        for operation in graph.get_operations()
        if any(tensor.name == name for tensor in operation.inputs)
    ]
