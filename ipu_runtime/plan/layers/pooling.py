"""Pooling over windows and over whole images."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_runtime.plan.layers.convolution import image, window_field
from ipu_runtime.plan.layers.kind import Kept, LayerKind, Settings, Shaped, size_of
from ipu_runtime.plan.layers.setting import (
    DATA_FORMAT,
    Setting,
    one_of,
    optional_pair,
    pair,
    truth,
)
from ipu_runtime.plan.model.model_spec import Layer, Shape
from ipu_runtime.plan.model.operations import DIVISION, Operation, OpKind


def _pooled(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    height, width, channels = image(inputs)
    return Shaped((*window_field((height, width), settings, "pool_size"), channels))


def _averaged(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    channels = image(inputs)[2]
    return Shaped((1, 1, channels) if settings["keepdims"] else (channels,))


def _pool(layer: Layer, training: bool) -> Sequence[Operation]:
    shape = (-size_of(layer.input_shapes[0]),)
    return (Operation(OpKind.POOL, "pool", shape, first=True),)


def _mean(layer: Layer, training: bool) -> Sequence[Operation]:
    shape = (-size_of(layer.input_shapes[0]), -layer.output_size)
    mean = Operation(
        OpKind.REDUCTION, "mean", shape, gradient_cycles=DIVISION, first=True
    )
    return (mean,)


def _keeps_input(layer: Layer) -> Kept:
    return Kept(input=True)


_WINDOW = {
    "pool_size": Setting(pair, (2, 2)),
    "strides": Setting(optional_pair, None),
    "padding": Setting(one_of("valid", "same"), "valid"),
    "data_format": DATA_FORMAT,
}
MAX_POOLING = LayerKind(
    "MaxPooling2D",
    "The largest value of every window.",
    _WINDOW,
    _pooled,
    _pool,
    _keeps_input,
)
AVERAGE_POOLING = LayerKind(
    "AveragePooling2D",
    "The mean of every window.",
    {**_WINDOW, "pool_size": Setting(pair, required=True)},
    _pooled,
    _pool,
)
GLOBAL_AVERAGE_POOLING = LayerKind(
    "GlobalAveragePooling2D",
    "The mean of every channel.",
    {"data_format": DATA_FORMAT, "keepdims": Setting(truth, False)},
    _averaged,
    _mean,
)
KINDS = (MAX_POOLING, AVERAGE_POOLING, GLOBAL_AVERAGE_POOLING)
