"""Layers that treat every value alone, and those that bring branches together."""

from __future__ import annotations

from ipu_runtime.plan.costs.activation_costs import (
    activation_backward,
    activation_forward,
)
from ipu_runtime.plan.costs.op_costs import ADD, DROPOUT, SELECT, Costing, OpCost
from ipu_runtime.plan.layers.activations import ACTIVATION, kept_by_activation
from ipu_runtime.plan.layers.kind import (
    Kept,
    LayerKind,
    Settings,
    Shaped,
    ShapeError,
)
from ipu_runtime.plan.layers.setting import Setting, number, share, whole_number
from ipu_runtime.plan.model.model_spec import Layer, Shape

_MANY = 1_000


def _same_shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    return Shaped(inputs[0])


def _activation_of(layer: Layer) -> str:
    if layer.kind == "Activation":
        return str(ACTIVATION_KIND.complete(layer.spec.settings)["activation"])
    return "softmax" if layer.kind == "Softmax" else "relu"


def _activate(layer: Layer, batch: int, cost: Costing) -> list[OpCost]:
    return activation_forward(_activation_of(layer), batch * layer.output_size, cost)


def _activate_back(
    layer: Layer, batch: int, cost: Costing, input_gradient: bool
) -> list[OpCost]:
    if not input_gradient:
        return []
    return activation_backward(_activation_of(layer), batch * layer.output_size, cost)


def _kept_activation(layer: Layer) -> Kept:
    return kept_by_activation(_activation_of(layer), layer.output_size, Kept())


def _drop(layer: Layer, batch: int, cost: Costing) -> list[OpCost]:
    if not cost.training:
        return []
    return [cost.passes("dropout", batch * layer.output_size, DROPOUT, supersteps=3)]


def _drop_back(
    layer: Layer, batch: int, cost: Costing, input_gradient: bool
) -> list[OpCost]:
    if not input_gradient:
        return []
    return [cost.passes("dropout gradient", batch * layer.output_size, SELECT)]


def _kept_mask(layer: Layer) -> Kept:
    return Kept(mask_bytes=layer.output_size)


def _scale(layer: Layer, batch: int, cost: Costing) -> list[OpCost]:
    return [cost.passes("scale", batch * layer.output_size, ADD)]


def _scale_back(
    layer: Layer, batch: int, cost: Costing, input_gradient: bool
) -> list[OpCost]:
    return _scale(layer, batch, cost) if input_gradient else []


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


def _add(layer: Layer, batch: int, cost: Costing) -> list[OpCost]:
    total = batch * layer.output_size
    return [cost.passes("add", total, ADD) for _ in layer.input_shapes[1:]]


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


def _join(layer: Layer, batch: int, cost: Costing) -> list[OpCost]:
    return [cost.passes("concatenate", batch * layer.output_size, ADD, moves=1)]


def _part(
    layer: Layer, batch: int, cost: Costing, input_gradient: bool
) -> list[OpCost]:
    return _join(layer, batch, cost) if input_gradient else []


ACTIVATION_KIND = LayerKind(
    "Activation",
    "A function of every value.",
    {"activation": Setting(ACTIVATION.read, required=True)},
    _same_shape,
    _activate,
    _activate_back,
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
    _activate_back,
    _kept_activation,
    in_place=True,
)
SOFTMAX = LayerKind(
    "Softmax",
    "Values become shares that sum to one.",
    {"axis": Setting(default=-1)},
    _same_shape,
    _activate,
    _activate_back,
    _kept_activation,
    in_place=True,
)
DROPOUT_KIND = LayerKind(
    "Dropout",
    "Sets a random share of the values to zero while training.",
    {"rate": Setting(share, required=True), "noise_shape": Setting()},
    _same_shape,
    _drop,
    _drop_back,
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
    _scale_back,
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
    _part,
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
