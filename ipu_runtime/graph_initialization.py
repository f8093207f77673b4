"""Placing the initialisation of graph variables on the host."""

from __future__ import annotations

from typing import Any


def move_variable_initialization_to_cpu(graph: Any = None) -> None:
    """Pin initialisers of a graph's variables to the CPU; nothing to do eagerly."""
    # Configuring a system should not load TensorFlow.
    import tensorflow as tf

    chosen = graph if graph is not None else tf.compat.v1.get_default_graph()
    for variable in chosen.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES):
        initializer = getattr(variable, "initializer", None)
        if initializer is not None and hasattr(initializer, "_set_device"):
            initializer._set_device("/device:CPU:0")
