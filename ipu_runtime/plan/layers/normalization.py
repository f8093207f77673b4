"""Batch and layer normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu_runtime.plan.layers.kind import (
    Kept,
    LayerKind,
    Settings,
    Shaped,
    ShapeError,
    size_of,
)
from ipu_runtime.plan.layers.setting import (
    Setting,
    SettingError,
    axes,
    number,
    share,
    truth,
    whole_number,
)
from ipu_runtime.plan.model.model_spec import Layer, Shape, Weight
from ipu_runtime.plan.model.operations import Extent, Operation, OpKind


def _extents(shape: Shape, wanted: tuple[int, ...]) -> Shape:
    """Return the extents of axes that are counted with the batch as axis 0."""
    extents = []
    for axis in wanted:
        at = axis + len(shape) if axis < 0 else axis - 1
        if not 0 <= at < len(shape):
            raise ShapeError(f"{axis} is not an axis of {list(shape)}", "axis")
        extents.append(shape[at])
    return tuple(extents)


def _weights(settings: Settings, shape: Shape) -> list[Weight]:
    weights = []
    if settings["scale"]:
        weights.append(Weight("gamma", shape))
    if settings["center"]:
        weights.append(Weight("beta", shape))
    return weights


def _batch_shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    channels = _extents(inputs[0], (settings["axis"],))
    weights = _weights(settings, channels)
    weights.append(Weight("moving_mean", channels, trainable=False))
    weights.append(Weight("moving_variance", channels, trainable=False))
    return Shaped(inputs[0], tuple(weights))


def _layer_shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    extents = _extents(inputs[0], settings["axis"])
    return Shaped(inputs[0], tuple(_weights(settings, extents)))


def _normalise_channels(layer: Layer, training: bool) -> Sequence[Operation]:
    values = -layer.output_size
    if not training:
        return (Operation(OpKind.ELEMENTWISE, "scale and shift", (values,)),)
    axis = BATCH_NORMALIZATION.complete(layer.spec.settings)["axis"]
    return (_norm(layer, size_of(_extents(layer.output_shape, (axis,)))),)


def _normalise_rows(layer: Layer, training: bool) -> Sequence[Operation]:
    axis = LAYER_NORMALIZATION.complete(layer.spec.settings)["axis"]
    row = size_of(_extents(layer.output_shape, axis))
    return (_norm(layer, -layer.output_size // row),)


def _norm(layer: Layer, results: Extent) -> Operation:
    """List a normalisation by so many means: one per channel, or per row."""
    return Operation(
        OpKind.NORM,
        "normalise",
        (-layer.output_size, results),
        trains=bool(layer.weights),
        first=True,
    )


def _keeps_input(layer: Layer) -> Kept:
    return Kept(input=True)


def _one_axis(value: Any) -> int:
    """Read one axis, also from a list of one as Keras stores it."""
    if isinstance(value, list | tuple):
        if len(value) != 1:
            raise SettingError("must be one axis")
        value = value[0]
    return whole_number(value)


_COMMON = {
    "epsilon": Setting(number, 0.001),
    "center": Setting(truth, True),
    "scale": Setting(truth, True),
}
BATCH_NORMALIZATION = LayerKind(
    "BatchNormalization",
    "Mean and variance of every channel over the batch become 0 and 1.",
    {"axis": Setting(_one_axis, -1), "momentum": Setting(share, 0.99), **_COMMON},
    _batch_shape,
    _normalise_channels,
    _keeps_input,
    folds_into=("Conv2D", "DepthwiseConv2D"),
)
LAYER_NORMALIZATION = LayerKind(
    "LayerNormalization",
    "Mean and variance of every sample's row become 0 and 1.",
    {"axis": Setting(axes, (-1,)), **_COMMON},
    _layer_shape,
    _normalise_rows,
    _keeps_input,
)
KINDS = (BATCH_NORMALIZATION, LAYER_NORMALIZATION)
