"""TensorFlow's variables from inside.

TensorFlow is imported late: `ipu.utils`, which also configures systems, names a
function of this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

ASSIGNMENTS = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
"""Types of operations that write a whole variable."""


def move_variable_initialization_to_cpu(graph: Any = None) -> None:
    """Pin initialisers of a graph's variables to the CPU; nothing to do eagerly."""
    import tensorflow as tf

    chosen = graph if graph is not None else tf.compat.v1.get_default_graph()
    for variable in chosen.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES):
        initializer = getattr(variable, "initializer", None)
        if initializer is not None and hasattr(initializer, "_set_device"):
            initializer._set_device("/device:CPU:0")


def plain_variable(value: Any) -> Any:
    """Return a variable, also where a function is being traced that may make none."""
    from tensorflow.python.ops.resource_variable_ops import ResourceVariable

    return ResourceVariable(value, trainable=False)


def shape_and_type(handle: Any) -> Any:
    """Return shape and type of a variable, from its handle."""
    from tensorflow.python.ops import resource_variable_ops

    return resource_variable_ops.get_eager_safe_handle_data(handle).shape_and_type[0]


def create_slots(optimizer: Any, variables: Sequence[Any]) -> None:
    """Make the variables of a TensorFlow 1 optimizer before it is first applied."""
    optimizer._create_slots(variables)


def name_variable(variable: Any, name: str) -> None:
    """Give a variable that is outside of graphs another name."""
    if hasattr(variable, "_handle_name") and not variable._in_graph_mode:
        variable._handle_name = name
