"""Layers that only tell the compiler something."""

from __future__ import annotations

from typing import Any

import keras


class _Identity(keras.layers.Layer):
    """Returns what it gets, in the same structure."""

    def call(self, inputs: Any) -> Any:
        """Return the inputs."""
        return keras.tree.map_structure(keras.ops.copy, inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shapes of the inputs."""
        return input_shape

    def build(self, input_shape: Any) -> None:
        """There is nothing to build."""
        self.built = True


class RecomputationCheckpoint(_Identity):
    """Marks values that are stored rather than computed again."""


class AssumeEqualAcrossReplicas(_Identity):
    """Marks values that are equal on all replicas."""
