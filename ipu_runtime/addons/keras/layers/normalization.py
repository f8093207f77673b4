"""Normalisation over groups of channels as the IPU has it."""

from __future__ import annotations

from typing import Any

from ipu_runtime.addons.keras.layers.refusal import refuse
from ipu_runtime.frameworks.keras_api import keras, ops
from ipu_runtime.installing.signatures import with_arguments_of
from ipu_runtime.ops.normalization_ops import normalised


class GroupNormalization(keras.layers.Layer):
    """Normalises every sample over groups of channels and all positions.

    With `strided_channel_grouping` a group has every n-th channel, as on the device
    by default; otherwise neighbouring ones.
    """

    def __init__(
        self,
        groups: int = 2,
        channels_axis: int = -1,
        center: bool = True,
        scale: bool = True,
        epsilon: float = 1e-3,
        beta_initializer: Any = None,
        gamma_initializer: Any = None,
        strided_channel_grouping: bool = True,
        trainable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable=trainable, **kwargs)
        self.groups = groups
        self.channels_axis = channels_axis
        self.center = center
        self.scale = scale
        self.epsilon = epsilon
        self.beta_initializer = keras.initializers.get(beta_initializer or "zeros")
        self.gamma_initializer = keras.initializers.get(gamma_initializer or "ones")
        self.strided_channel_grouping = strided_channel_grouping

    def build(self, input_shape: Any) -> None:
        """Make the weights."""
        channels = input_shape[self.channels_axis]
        if channels is None or channels % self._groups_of(channels):
            raise ValueError(
                f"The number of channels ({channels}) must be a multiple of groups "
                f"({self.groups})."
            )
        shape = (channels,)
        self.gamma = self.beta = None
        if self.scale:
            self.gamma = self.add_weight(
                shape=shape, initializer=self.gamma_initializer, name="gamma"
            )
        if self.center:
            self.beta = self.add_weight(
                shape=shape, initializer=self.beta_initializer, name="beta"
            )
        self.built = True

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Normalise, in training as later."""
        del training
        axis = self.channels_axis % len(inputs.shape)
        channels = inputs.shape[axis]
        x = normalised(
            inputs,
            axis,
            self._groups_of(channels),
            self.strided_channel_grouping,
            self.epsilon,
        )
        shape = [1] * len(inputs.shape)
        shape[axis] = channels
        if self.gamma is not None:
            x = x * ops.cast(ops.reshape(self.gamma, shape), x.dtype)
        if self.beta is not None:
            x = x + ops.cast(ops.reshape(self.beta, shape), x.dtype)
        return x

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of the inputs."""
        return input_shape

    def _groups_of(self, channels: int) -> int:
        return self.groups

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        names = (
            "groups",
            "channels_axis",
            "center",
            "scale",
            "epsilon",
            "strided_channel_grouping",
        )
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            "beta_initializer": keras.initializers.serialize(self.beta_initializer),
            "gamma_initializer": keras.initializers.serialize(self.gamma_initializer),
        }


class InstanceNormalization(GroupNormalization):
    """Every channel is a group."""

    @with_arguments_of(
        GroupNormalization.__init__, without=("groups", "strided_channel_grouping")
    )
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**{**arguments, "groups": 1})

    def _groups_of(self, channels: int) -> int:
        return channels


class _Normalization(keras.layers.LayerNormalization):
    """What subclasses of scripts call with `training`, as group normalisation."""

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Normalise, in training as later."""
        del training
        return super().call(inputs)


class LayerNormalization(_Normalization):
    """Keras' layer normalisation; shapes must be fully known, as for all programs."""

    def __init__(
        self,
        axis: Any = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        trainable: bool = True,
        **kwargs: Any,
    ) -> None:
        refuse(
            "LayerNormalization",
            {
                "beta_regularizer": beta_regularizer,
                "gamma_regularizer": gamma_regularizer,
                "beta_constraint": beta_constraint,
                "gamma_constraint": gamma_constraint,
            },
        )
        super().__init__(
            axis=axis,
            epsilon=epsilon,
            center=center,
            scale=scale,
            beta_initializer=beta_initializer,
            gamma_initializer=gamma_initializer,
            trainable=trainable,
            **kwargs,
        )
