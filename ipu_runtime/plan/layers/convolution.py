"""Convolutions and the padding before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu_runtime.plan.layers.activations import (
    ACTIVATION,
    activation,
    kept_by_activation,
)
from ipu_runtime.plan.layers.elementwise import copied
from ipu_runtime.plan.layers.kind import (
    Kept,
    LayerKind,
    Settings,
    Shaped,
    ShapeError,
)
from ipu_runtime.plan.layers.setting import (
    DATA_FORMAT,
    REQUIRED_INT,
    Setting,
    SettingError,
    one_of,
    pair,
    positive_int,
    truth,
    whole_number,
)
from ipu_runtime.plan.model.model_spec import Layer, Shape, Weight
from ipu_runtime.plan.model.operations import Operation, OpKind


def image(inputs: tuple[Shape, ...]) -> tuple[int, int, int]:
    """Return height, width and channels of the input, or say that it has none."""
    if len(inputs[0]) != 3:
        raise ShapeError(
            f"needs an input of height, width and channels, not {list(inputs[0])}"
        )
    return inputs[0][0], inputs[0][1], inputs[0][2]


def window(size: int, kernel: int, stride: int, padding: str, dilation: int = 1) -> int:
    """Count the positions of a window along one axis."""
    if padding == "same":
        return -(-size // stride)
    return (size - dilation * (kernel - 1) - 1) // stride + 1


def window_field(
    field: tuple[int, int], settings: Settings, kernel_setting: str
) -> tuple[int, int]:
    """Count the positions of a window along both axes."""
    kernel = settings[kernel_setting]
    strides = settings["strides"] or kernel
    dilation = settings.get("dilation_rate", (1, 1))
    height, width = (
        window(
            field[axis],
            kernel[axis],
            strides[axis],
            settings["padding"],
            dilation[axis],
        )
        for axis in (0, 1)
    )
    if height < 1 or width < 1:
        raise ShapeError(
            f"{list(kernel)} is larger than the input of {field[0]} x {field[1]}",
            kernel_setting,
            "use a smaller one, or padding = same",
        )
    return height, width


def _conv_shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    height, width, channels = image(inputs)
    groups, filters = settings["groups"], settings["filters"]
    if channels % groups or filters % groups:
        raise ShapeError(
            f"{groups} does not divide {channels} input channels and {filters} filters",
            "groups",
        )
    field = window_field((height, width), settings, "kernel_size")
    kernel = (*settings["kernel_size"], channels // groups, filters)
    weights = [Weight("kernel", kernel)]
    if settings["use_bias"]:
        weights.append(Weight("bias", (filters,)))
    return Shaped((*field, filters), tuple(weights))


def _depthwise_shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    height, width, channels = image(inputs)
    multiplier = settings["depth_multiplier"]
    field = window_field((height, width), settings, "kernel_size")
    kernel = settings["kernel_size"]
    weights = [Weight("kernel", (*kernel, channels, multiplier))]
    if settings["use_bias"]:
        weights.append(Weight("bias", (channels * multiplier,)))
    return Shaped((*field, channels * multiplier), tuple(weights))


def _settings(layer: Layer) -> dict[str, Any]:
    kind = CONV if layer.kind == "Conv2D" else DEPTHWISE
    return kind.complete(layer.spec.settings)


def _convolve(layer: Layer, training: bool) -> Sequence[Operation]:
    settings = _settings(layer)
    height, width, channels_out = layer.output_shape
    field_height, field_width, channels_in = layer.input_shapes[0]
    kernel, strides = settings["kernel_size"], settings["strides"]
    groups = settings.get("groups", channels_in)
    convolution = Operation(
        OpKind.CONVOLUTION,
        "convolution",
        (
            -height * width,
            channels_in // groups,
            channels_out // groups,
            kernel[0] * kernel[1],
            groups,
            -(field_height * field_width) // (strides[0] * strides[1]),
        ),
        trains=True,
        first=True,
    )
    bias = Operation(
        OpKind.BIAS,
        "bias add",
        (-layer.output_size, channels_out),
        rearranged=True,
        trains=True,
    )
    return (
        convolution,
        *[bias] * settings["use_bias"],
        *activation(settings["activation"], -layer.output_size),
    )


def _kept(layer: Layer) -> Kept:
    name = _settings(layer)["activation"]
    return kept_by_activation(name, layer.output_size, Kept(input=True))


def _margins(value: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    message = "must be a whole number, two of them, or two pairs of them"
    try:
        sides = [value, value] if isinstance(value, int) else list(value)
        read = [
            (whole_number(side), whole_number(side))
            if isinstance(side, int)
            else (whole_number(side[0]), whole_number(side[1]))
            for side in sides
        ]
    except (TypeError, IndexError) as error:
        raise SettingError(message) from error
    if len(read) != 2 or min(min(read[0]), min(read[1])) < 0:
        raise SettingError(message)
    return read[0], read[1]


def _padded(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    height, width, channels = image(inputs)
    (top, bottom), (left, right) = settings["padding"]
    return Shaped((height + top + bottom, width + left + right, channels))


def _pad(layer: Layer, training: bool) -> Sequence[Operation]:
    return (copied("copy", layer),)


_WINDOW = {
    "kernel_size": Setting(pair, required=True),
    "strides": Setting(pair, (1, 1)),
    "padding": Setting(one_of("valid", "same"), "valid"),
    "data_format": DATA_FORMAT,
    "dilation_rate": Setting(pair, (1, 1)),
    "activation": ACTIVATION,
    "use_bias": Setting(truth, True),
}
CONV = LayerKind(
    "Conv2D",
    "A kernel that slides over the image.",
    {"filters": REQUIRED_INT, **_WINDOW, "groups": Setting(positive_int, 1)},
    _conv_shape,
    _convolve,
    _kept,
)
DEPTHWISE = LayerKind(
    "DepthwiseConv2D",
    "A kernel per channel that slides over the image.",
    {**_WINDOW, "depth_multiplier": Setting(positive_int, 1)},
    _depthwise_shape,
    _convolve,
    _kept,
)
ZERO_PADDING = LayerKind(
    "ZeroPadding2D",
    "Zeros round the image.",
    {"padding": Setting(_margins, ((1, 1), (1, 1))), "data_format": DATA_FORMAT},
    _padded,
    _pad,
)
KINDS = (CONV, DEPTHWISE, ZERO_PADDING)
