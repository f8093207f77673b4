"""Wrappers that mark the gradients of a layer; the forward pass is the layer's."""

from __future__ import annotations

from typing import Any

import keras


class _Capture(keras.layers.Wrapper):
    """Calls the layer it wraps.

    Captured gradients are not handed to optimizers in the emulator.
    """

    def __init__(self, layer: Any, tag: str | None = None, **kwargs: Any) -> None:
        if not isinstance(layer, keras.layers.Layer):
            raise ValueError(
                f"{type(self).__name__} wraps a keras.layers.Layer, not {layer!r}."
            )
        super().__init__(layer, **kwargs)
        self.tag = tag

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        """Call the wrapped layer."""
        return self.layer(inputs, **kwargs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of the wrapped layer's output."""
        return self.layer.compute_output_shape(input_shape)

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        return {**super().get_config(), "tag": self.tag}


class CaptureUpstreamGradients(_Capture):
    """Marks the gradients of the layer's outputs."""


class CaptureActivationGradients(_Capture):
    """Marks the gradients of the layer's inputs."""
