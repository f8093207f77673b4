"""Normalisation over groups of channels as the IPU has it."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


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

    def call(self, inputs: Any) -> Any:
        """Normalise."""
        rank = len(inputs.shape)
        axis = self.channels_axis % rank
        x = ops.moveaxis(inputs, axis, -1)
        channels = x.shape[-1]
        groups = self._groups_of(channels)
        shape = ops.shape(x)
        size = channels // groups
        split = (size, groups) if self.strided_channel_grouping else (groups, size)
        x = ops.reshape(x, (*shape[:-1], *split))
        group_axis = rank if self.strided_channel_grouping else rank - 1
        axes = [a for a in range(1, rank + 1) if a != group_axis]
        mean = ops.mean(x, axis=axes, keepdims=True)
        variance = ops.mean(ops.square(x - mean), axis=axes, keepdims=True)
        x = (x - mean) * ops.rsqrt(variance + self.epsilon)
        x = ops.reshape(x, shape)
        if self.gamma is not None:
            x = x * ops.cast(self.gamma, x.dtype)
        if self.beta is not None:
            x = x + ops.cast(self.beta, x.dtype)
        return ops.moveaxis(x, -1, axis)

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

    def __init__(self, **kwargs: Any) -> None:
        kwargs.pop("groups", None)
        super().__init__(groups=1, **kwargs)

    def _groups_of(self, channels: int) -> int:
        return channels


class LayerNormalization(keras.layers.LayerNormalization):
    """Keras' layer normalisation; shapes must be fully known, as for all programs."""
