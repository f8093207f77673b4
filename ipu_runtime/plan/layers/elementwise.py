"""Layers that treat every value alone, and those that bring branches together."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_runtime.plan.layers.activations import (
    ACTIVATION,
    activation,
    kept_by_activation,
)
from ipu_runtime.plan.layers.kind import (
    Kept,
    LayerKind,
    Settings,
    Shaped,
    ShapeError,
    size_of,
)
from ipu_runtime.plan.layers.setting import Setting, number, share, whole_number
from ipu_runtime.plan.model.model_spec import Layer, Shape
from ipu_runtime.plan.model.operations import Operation, OpKind

_MANY = 1_000


def _same_shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    return Shaped(inputs[0])


def _activation_of(layer: Layer) -> str:
    if layer.kind == "Activation":
        return str(ACTIVATION_KIND.complete(layer.spec.settings)["activation"])
    return "softmax" if layer.kind == "Softmax" else "relu"


def _activate(layer: Layer, training: bool) -> Sequence[Operation]:
    return activation(_activation_of(layer), -layer.output_size, first=True)


def _kept_activation(layer: Layer) -> Kept:
    return kept_by_activation(_activation_of(layer), layer.output_size, Kept())


def _drop(layer: Layer, training: bool) -> Sequence[Operation]:
    shape = (-layer.output_size,)
    return [Operation(OpKind.DROPOUT, "dropout", shape, first=True)] * training


def _kept_mask(layer: Layer) -> Kept:
    return Kept(mask_bytes=layer.output_size)


def _scale(layer: Layer, training: bool) -> Sequence[Operation]:
    # A product and a sum, of which the sum hands its gradient on.
    scale = Operation(
        OpKind.ELEMENTWISE,
        "scale",
        (-layer.output_size,),
        cycles=3,
        gradient_cycles=2,
        first=True,
    )
    return (scale,)


def _sum_shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    longest = max(inputs, key=len)
    result = list(longest)
    for shape in inputs:
        for at in range(1, len(shape) + 1):
            ours, theirs = result[-at], shape[-at]
            if 1 not in (ours, theirs) and ours != theirs:
                shapes = " and ".join(str(list(each)) for each in inputs)
                raise ShapeError(f"cannot add {shapes}", "inputs")
            result[-at] = max(ours, theirs)
    return Shaped(tuple(result))


def _add(layer: Layer, training: bool) -> Sequence[Operation]:
    # Sums of several run as one pass, with a cycle for each after the first.
    cycles = len(layer.input_shapes)
    return (Operation(OpKind.ELEMENTWISE, "add", (-layer.output_size,), cycles=cycles),)


def _concatenated(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    rank = len(inputs[0])
    axis = settings["axis"]
    # Keras counts the batch as axis 0.
    at = axis + rank if axis < 0 else axis - 1
    if not 0 <= at < rank:
        raise ShapeError(f"{axis} is not an axis of {list(inputs[0])}", "axis")
    others = {
        tuple(extent for i, extent in enumerate(shape) if i != at) for shape in inputs
    }
    if len(others) > 1 or any(len(shape) != rank for shape in inputs):
        shapes = ", ".join(str(list(shape)) for shape in inputs)
        raise ShapeError(f"inputs {shapes} differ outside axis {axis}", "inputs")
    result = list(inputs[0])
    result[at] = sum(shape[at] for shape in inputs)
    return Shaped(tuple(result))


def _join(layer: Layer, training: bool) -> Sequence[Operation]:
    return (copied("concatenate", layer),)


def copied(name: str, layer: Layer) -> Operation:
    """List what brings all that a layer takes into what it makes."""
    taken = sum(size_of(shape) for shape in layer.input_shapes)
    shape = (-layer.output_size, -taken)
    return Operation(OpKind.COPY, name, shape, first=True)


ACTIVATION_KIND = LayerKind(
    "Activation",
    "A function of every value.",
    {"activation": Setting(ACTIVATION.read, required=True)},
    _same_shape,
    _activate,
    _kept_activation,
    in_place=True,
)
RELU = LayerKind(
    "ReLU",
    "Negative values become zero.",
    {
        "max_value": Setting(),
        "negative_slope": Setting(number, 0.0),
        "threshold": Setting(number, 0.0),
    },
    _same_shape,
    _activate,
    _kept_activation,
    in_place=True,
)
SOFTMAX = LayerKind(
    "Softmax",
    "Values become shares that sum to one.",
    {"axis": Setting(default=-1)},
    _same_shape,
    _activate,
    _kept_activation,
    in_place=True,
)
DROPOUT_KIND = LayerKind(
    "Dropout",
    "Sets a random share of the values to zero while training.",
    {"rate": Setting(share, required=True), "noise_shape": Setting()},
    _same_shape,
    _drop,
    _kept_mask,
    in_place=True,
    stateful=True,
)
RESCALING = LayerKind(
    "Rescaling",
    "Multiplies every value and adds an offset.",
    {"scale": Setting(number, required=True), "offset": Setting(number, 0.0)},
    _same_shape,
    _scale,
    in_place=True,
)
ADD_KIND = LayerKind(
    "Add",
    "The sum of several layers' results: where a skip connection ends.",
    {},
    _sum_shape,
    _add,
    fewest_inputs=2,
    most_inputs=_MANY,
    in_place=True,
)
CONCATENATE = LayerKind(
    "Concatenate",
    "Several layers' results side by side.",
    {"axis": Setting(whole_number, -1)},
    _concatenated,
    _join,
    fewest_inputs=2,
    most_inputs=_MANY,
)
KINDS = (
    ACTIVATION_KIND,
    RELU,
    SOFTMAX,
    DROPOUT_KIND,
    RESCALING,
    ADD_KIND,
    CONCATENATE,
)
