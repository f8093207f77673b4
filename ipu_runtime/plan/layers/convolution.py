"""Convolutions and the padding before them."""

from __future__ import annotations

from typing import Any

from ipu_runtime.plan.costs.activation_costs import (
    activation_backward,
    activation_forward,
)
from ipu_runtime.plan.costs.matrix_unit import MatrixShape
from ipu_runtime.plan.costs.op_costs import ADD, Costing, OpCost
from ipu_runtime.plan.layers.activations import ACTIVATION, kept_by_activation
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
    taps = kernel[0] * kernel[1]
    work = field[0] * field[1] * taps * kernel[2] * filters
    return Shaped((*field, filters), tuple(weights), work)


def _depthwise_shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    height, width, channels = image(inputs)
    multiplier = settings["depth_multiplier"]
    field = window_field((height, width), settings, "kernel_size")
    kernel = settings["kernel_size"]
    weights = [Weight("kernel", (*kernel, channels, multiplier))]
    if settings["use_bias"]:
        weights.append(Weight("bias", (channels * multiplier,)))
    out = channels * multiplier
    work = field[0] * field[1] * kernel[0] * kernel[1] * out
    return Shaped((*field, out), tuple(weights), work)


def _settings(layer: Layer) -> dict[str, Any]:
    kind = CONV if layer.kind == "Conv2D" else DEPTHWISE
    return kind.complete(layer.spec.settings)


def _pass_shape(layer: Layer, settings: Settings, batch: int) -> MatrixShape:
    height, width, channels_out = layer.output_shape
    channels_in = layer.input_shapes[0][2]
    kernel = settings["kernel_size"]
    groups = settings.get("groups", channels_in)
    return MatrixShape(
        positions=batch * height * width,
        channels_in=channels_in // groups,
        channels_out=channels_out // groups,
        taps=kernel[0] * kernel[1],
        groups=groups,
    )


def _forward(layer: Layer, batch: int, cost: Costing) -> list[OpCost]:
    settings = _settings(layer)
    total = batch * layer.output_size
    ops = [cost.convolution("convolution", _pass_shape(layer, settings, batch))]
    if settings["use_bias"]:
        ops.append(cost.passes("bias add", total, ADD))
    return ops + activation_forward(settings["activation"], total, cost)


def _backward(
    layer: Layer, batch: int, cost: Costing, input_gradient: bool
) -> list[OpCost]:
    settings = _settings(layer)
    total = batch * layer.output_size
    shape = _pass_shape(layer, settings, batch)
    ops = activation_backward(settings["activation"], total, cost)
    if input_gradient:
        height, width, _ = layer.input_shapes[0]
        strides = settings["strides"]
        positions = -(-batch * height * width // (strides[0] * strides[1]))
        turned = MatrixShape(
            positions=positions,
            channels_in=shape.channels_out,
            channels_out=shape.channels_in,
            taps=shape.taps,
            groups=shape.groups,
        )
        ops.append(cost.convolution("data gradient", turned, extra_supersteps=2))
    ops.append(cost.weight_gradient_of_convolution("weight gradient", shape))
    if settings["use_bias"]:
        channels = layer.output_shape[2]
        ops.append(
            cost.reduction("bias gradient", total, channels, supersteps=3, layout=True)
        )
    return ops


def _kept(layer: Layer) -> Kept:
    activation = _settings(layer)["activation"]
    return kept_by_activation(activation, layer.output_size, Kept(input=True))


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


def _copy(layer: Layer, batch: int, cost: Costing) -> list[OpCost]:
    return [cost.passes("copy", batch * layer.output_size, ADD, moves=1)]


def _copy_back(
    layer: Layer, batch: int, cost: Costing, input_gradient: bool
) -> list[OpCost]:
    return _copy(layer, batch, cost) if input_gradient else []


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
    _forward,
    _backward,
    _kept,
)
DEPTHWISE = LayerKind(
    "DepthwiseConv2D",
    "A kernel per channel that slides over the image.",
    {**_WINDOW, "depth_multiplier": Setting(positive_int, 1)},
    _depthwise_shape,
    _forward,
    _backward,
    _kept,
)
ZERO_PADDING = LayerKind(
    "ZeroPadding2D",
    "Zeros round the image.",
    {"padding": Setting(_margins, ((1, 1), (1, 1))), "data_format": DATA_FORMAT},
    _padded,
    _copy,
    _copy_back,
)
KINDS = (CONV, DEPTHWISE, ZERO_PADDING)
