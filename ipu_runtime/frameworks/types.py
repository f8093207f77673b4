"""Names for what TensorFlow and Keras hand around, for annotations.

TensorFlow ships no types that mypy can read, so that each name means `Any` to it. To a
reader it says which object is meant. Nothing is imported here: whoever must do without
TensorFlow may use the names.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Tensor: TypeAlias = Any
"""A `tf.Tensor`, with a value or in a graph."""
Variable: TypeAlias = Any
"""A `tf.Variable` or a `keras.Variable`."""
Operation: TypeAlias = Any
"""A `tf.Operation` of a graph."""
Graph: TypeAlias = Any
"""A `tf.Graph`, or the `FuncGraph` of a traced function."""
TensorSpec: TypeAlias = Any
"""A `tf.TensorSpec`, or another description of shape and type."""
DType: TypeAlias = Any
"""A `tf.DType`."""
Session: TypeAlias = Any
"""A `tf.compat.v1.Session`, monitored or not."""
KerasModel: TypeAlias = Any
"""A `keras.Model`."""
Layer: TypeAlias = Any
"""A `keras.layers.Layer`."""
Optimizer: TypeAlias = Any
"""An optimizer of Keras or of TensorFlow 1."""
Structure: TypeAlias = Any
"""Tensors or arrays in lists, tuples and dictionaries, as `tf.nest` takes them."""
