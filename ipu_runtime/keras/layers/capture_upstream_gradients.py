"""Wrappers that hand gradients of a layer to the optimizer.

The optimizer gets them as `captured_grads` of `apply_gradients`, if that takes such an
argument or if its `supports_captured_grads` is true: by tag, those of the last
micro-batch of a weight update, or of all if the pipeline accumulates captured ones.
"""

from __future__ import annotations

from typing import Any

from ipu_runtime.engine.build.programs.gradient_capture import capture
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.types import Layer


class _GradientCapture(keras.layers.Wrapper):
    """Calls the layer it wraps, under the name of the tag."""

    captures_gradients = True
    suffix: str

    def __init__(self, layer: Layer, tag: str | None = None, **kwargs: Any) -> None:
        _check_is_layer(layer, type(self).__name__)
        self.tag = tag if tag is not None else f"{layer.name}_{self.suffix}"
        super().__init__(layer, **{"name": self.tag, **kwargs})

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped layer."""
        return self.layer(inputs, *args, **kwargs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of the wrapped layer's output."""
        return self.layer.compute_output_shape(input_shape)

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        wrapped = keras.saving.serialize_keras_object(self._unchanged())
        own = keras.layers.Layer.get_config(self)
        return {**own, "layer": wrapped, "tag": self.tag}

    def _unchanged(self) -> Any:
        return self.layer


@keras.saving.register_keras_serializable("ipu_runtime")
class CaptureUpstreamGradients(_GradientCapture):
    """Captures the gradients of the layer's outputs."""

    suffix = "cug"

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped layer, and mark what it returns."""
        return capture(super().call(inputs, *args, **kwargs), self.tag)


@keras.saving.register_keras_serializable("ipu_runtime")
class CaptureActivationGradients(_GradientCapture):
    """Captures the gradients of what goes into the layer's activation functions.

    The tag is followed by the name of the setting, as in `dense_cag_activation`. The
    layer is made anew from its configuration.
    """

    suffix = "cag"

    def __init__(self, layer: Layer, tag: str | None = None, **kwargs: Any) -> None:
        if not self.layer_is_supported(layer):
            raise ValueError(
                f"Layer {layer.name} has no activation function, so that "
                "CaptureActivationGradients has nothing to capture."
            )
        prefix = tag if tag is not None else f"{layer.name}_{self.suffix}"
        self._config, self._kind = layer.get_config(), type(layer)
        marked = {
            key: _CapturedActivation(self._config[key], f"{prefix}_{key}")
            for key in _activation_settings(layer)
        }
        super().__init__(self._kind.from_config(self._config | marked), tag, **kwargs)

    @staticmethod
    def layer_is_supported(layer: Layer) -> bool:
        """Tell whether a layer has activation functions."""
        _check_is_layer(layer, "CaptureActivationGradients")
        return bool(_activation_settings(layer))

    def _unchanged(self) -> Any:
        return self._kind.from_config(self._config)


class _CapturedActivation:
    """An activation function that marks what goes into it."""

    def __init__(self, activation: Any, tag: str) -> None:
        self._activation = keras.activations.get(activation)
        self._tag = tag

    def __call__(self, x: Any) -> Any:
        return self._activation(capture(x, self._tag))


def _check_is_layer(layer: Layer, wrapper: str) -> None:
    if not isinstance(layer, keras.layers.Layer):
        raise ValueError(f"{wrapper} wraps a keras.layers.Layer, not {layer!r}.")


def _activation_settings(layer: Layer) -> list[str]:
    return [key for key in layer.get_config() if "activation" in key]
