"""Normalisation over groups of channels: `ipu.ops.normalization_ops`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.types import Tensor

logger = logging.getLogger("tensorflow")

_SMALLEST_EPSILON = 1.53e-5


def group_norm(
    inputs: Tensor,
    groups: int = 2,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1.53e-5,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
    strided_channel_grouping: bool = True,
) -> Tensor:
    """Normalise every sample over groups of channels and all positions.

    Strided, a group has every n-th channel; otherwise neighbouring ones.
    """
    del training  # Statistics are always those of the sample.
    inputs, axis = _checked(inputs, channels_axis, "group_norm", epsilon)
    channels = inputs.shape.as_list()[axis]
    if groups > channels:
        raise ValueError(f"Invalid groups {groups} for {channels} channels.")
    if channels % groups:
        raise ValueError(
            f"{channels} channels is not commensurate with {groups} groups."
        )
    result = normalised(inputs, axis, groups, strided_channel_grouping, epsilon)
    return _Parameters(
        param_initializers, reuse, variables_collections, trainable, scope
    ).apply("GroupNorm", result, axis, center, scale)


def instance_norm(
    inputs: Tensor,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1.53e-5,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
) -> Tensor:
    """Normalise every channel of a sample over all positions."""
    del training
    inputs, axis = _checked(inputs, channels_axis, "instance_norm", epsilon)
    result = normalised(inputs, axis, inputs.shape.as_list()[axis], False, epsilon)
    return _Parameters(
        param_initializers, reuse, variables_collections, trainable, scope
    ).apply("InstanceNorm", result, axis, center, scale)


def layer_norm(
    inputs: Tensor,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1.53e-5,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
) -> Tensor:
    """Normalise every sample over all channels and all positions at once."""
    del training
    inputs, axis = _checked(inputs, channels_axis, "layer_norm", epsilon)
    result = normalised(inputs, axis, 1, False, epsilon)
    return _Parameters(
        param_initializers, reuse, variables_collections, trainable, scope
    ).apply("LayerNorm", result, axis, center, scale)


def normalised(
    inputs: Tensor, axis: int, groups: int, strided: bool, epsilon: float
) -> Tensor:
    """Return inputs with mean 0 and variance 1 in every sample and group."""
    extents = inputs.shape.as_list()
    channels, rank = extents[axis], len(extents)
    last = [*(item for item in range(rank) if item != axis), axis]
    # Sums of half-precision values are float32 on the device, too.
    x = tf.transpose(tf.cast(inputs, tf.float32), last)
    whole = tf.shape(x)
    size = channels // groups
    split = [size, groups] if strided else [groups, size]
    x = tf.reshape(x, tf.concat([whole[:-1], split], 0))
    group_axis = rank if strided else rank - 1
    axes = [item for item in range(1, rank + 1) if item != group_axis]
    mean, variance = tf.nn.moments(x, axes, keepdims=True)
    x = tf.reshape((x - mean) * tf.math.rsqrt(variance + epsilon), whole)
    back = [last.index(item) for item in range(rank)]
    result = tf.cast(tf.transpose(x, back), inputs.dtype)
    result.set_shape(inputs.shape)
    return result


def _checked(
    inputs: Tensor, channels_axis: int, name: str, epsilon: float
) -> tuple[Tensor, int]:
    inputs = tf.convert_to_tensor(inputs)
    rank = inputs.shape.rank
    if rank is None:
        raise ValueError(f"Inputs {inputs.name} has undefined rank.")
    if not -rank <= channels_axis < rank:
        raise ValueError(f"Axis is out of bounds: {channels_axis} of rank {rank}.")
    axis = channels_axis % rank
    if axis not in (1, rank - 1):
        raise ValueError(
            f"Unsupported data format: channels_axis is {channels_axis}, but {name} "
            "only supports NCHW (channel axis 1) and NHWC (channel axis -1)."
        )
    if inputs.shape.as_list()[axis] is None:
        raise ValueError(
            f"Inputs {inputs.name} has undefined channel dimension: {axis}."
        )
    if epsilon < _SMALLEST_EPSILON:
        logger.warning(
            "The epsilon of %s, %g, may give NaN on the device; %g and more is safe.",
            name,
            epsilon,
            _SMALLEST_EPSILON,
        )
    return inputs, axis


@dataclass(frozen=True, slots=True)
class _Parameters:
    """How the variables `beta` and `gamma` are made, as in TensorFlow 1."""

    initializers: Mapping[str, Any] | None
    reuse: Any
    collections: Any
    trainable: bool
    scope: Any

    def apply(
        self, kind: str, x: Tensor, axis: int, center: bool, scale: bool
    ) -> Tensor:
        """Multiply by `gamma` and add `beta`, as far as they are wanted."""
        with tf.compat.v1.variable_scope(self.scope, kind, [x], reuse=self.reuse):
            beta = self._variable("beta", x, axis, "zeros") if center else None
            gamma = self._variable("gamma", x, axis, "ones") if scale else None
        if gamma is not None:
            x *= gamma
        return x if beta is None else x + beta

    def _variable(self, name: str, x: Tensor, axis: int, default: str) -> Tensor:
        collections = self.collections
        if isinstance(collections, dict):
            collections = collections.get(name)
        channels = x.shape.as_list()[axis]
        variable = tf.compat.v1.get_variable(
            name,
            [channels],
            x.dtype,
            (self.initializers or {}).get(
                name, getattr(tf.compat.v1, f"{default}_initializer")()
            ),
            collections=collections,
            trainable=self.trainable,
        )
        shape = [1] * len(x.shape)
        shape[axis] = channels
        return tf.reshape(variable, shape)
