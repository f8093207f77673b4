"""Dense, and the layers that only change how values are arranged."""

from __future__ import annotations

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
    size_of,
)
from ipu_runtime.plan.layers.setting import (
    DATA_FORMAT,
    REQUIRED_INT,
    Setting,
    sizes,
    truth,
)
from ipu_runtime.plan.model.model_spec import Layer, Shape, Weight


def _dense_shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    if not inputs[0]:
        raise ShapeError("needs an input of at least one dimension")
    width, units = inputs[0][-1], settings["units"]
    weights = [Weight("kernel", (width, units))]
    if settings["use_bias"]:
        weights.append(Weight("bias", (units,)))
    rows = size_of(inputs[0][:-1])
    return Shaped((*inputs[0][:-1], units), tuple(weights), rows * width * units)


def dense_ops(
    label: str, rows: int, width: int, units: int, bias: bool, cost: Costing
) -> list[OpCost]:
    """Cost a matrix of `rows` rows times a kernel."""
    ops = [cost.matmul(f"{label}matmul", MatrixShape(rows, width, units))]
    if bias:
        ops.append(cost.passes(f"{label}bias add", rows * units, ADD))
    return ops


def dense_gradient_ops(
    label: str,
    rows: int,
    width: int,
    units: int,
    bias: bool,
    cost: Costing,
    input_gradient: bool,
    *,
    extra_supersteps: int = 0,
) -> list[OpCost]:
    """Cost the gradients of `dense_ops`."""
    ops = []
    if input_gradient:
        ops.append(
            cost.matmul(
                f"{label}data gradient",
                MatrixShape(rows, units, width),
                extra_supersteps=extra_supersteps,
            )
        )
    ops.append(
        cost.matmul(
            f"{label}weight gradient",
            MatrixShape(width, rows, units),
            extra_supersteps=extra_supersteps,
        )
    )
    if bias:
        ops.append(cost.reduction(f"{label}bias gradient", rows * units, units))
    return ops


def _forward(layer: Layer, batch: int, cost: Costing) -> list[OpCost]:
    settings = DENSE.complete(layer.spec.settings)
    rows = batch * size_of(layer.input_shapes[0][:-1])
    width, units = layer.input_shapes[0][-1], settings["units"]
    return [
        *dense_ops("", rows, width, units, settings["use_bias"], cost),
        *activation_forward(settings["activation"], rows * units, cost),
    ]


def _backward(
    layer: Layer, batch: int, cost: Costing, input_gradient: bool
) -> list[OpCost]:
    settings = DENSE.complete(layer.spec.settings)
    rows = batch * size_of(layer.input_shapes[0][:-1])
    width, units = layer.input_shapes[0][-1], settings["units"]
    return [
        *activation_backward(settings["activation"], rows * units, cost),
        *dense_gradient_ops(
            "", rows, width, units, settings["use_bias"], cost, input_gradient
        ),
    ]


def _kept(layer: Layer) -> Kept:
    activation = DENSE.complete(layer.spec.settings)["activation"]
    return kept_by_activation(activation, layer.output_size, Kept(input=True))


def _flat_shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    return Shaped((size_of(inputs[0]),))


def _reshape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    target, total = settings["target_shape"], size_of(inputs[0])
    unknown = [extent for extent in target if extent == -1]
    known = size_of([extent for extent in target if extent != -1])
    if len(unknown) > 1 or any(extent < 1 for extent in target if extent != -1):
        raise ShapeError(
            f"{list(target)} is not a shape", "target_shape", "use at most one -1"
        )
    if total % max(known, 1) or (not unknown and known != total):
        raise ShapeError(
            f"{list(target)} cannot hold the {total} values of {list(inputs[0])}",
            "target_shape",
        )
    return Shaped(tuple(total // known if e == -1 else e for e in target))


def _permuted(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    dims = settings["dims"]
    if sorted(dims) != list(range(1, len(inputs[0]) + 1)):
        raise ShapeError(
            f"{list(dims)} does not name each of the {len(inputs[0])} dimensions once",
            "dims",
            "dimensions count from 1, without the batch",
        )
    return Shaped(tuple(inputs[0][dim - 1] for dim in dims))


def _moved(layer: Layer, batch: int, cost: Costing) -> list[OpCost]:
    total = batch * layer.output_size
    return [cost.passes("transpose", total, ADD, supersteps=2, moves=2)]


def _moved_back(
    layer: Layer, batch: int, cost: Costing, input_gradient: bool
) -> list[OpCost]:
    return _moved(layer, batch, cost) if input_gradient else []


DENSE = LayerKind(
    "Dense",
    "Every output value is a weighted sum of all values of the last axis.",
    {
        "units": REQUIRED_INT,
        "activation": ACTIVATION,
        "use_bias": Setting(truth, True),
    },
    _dense_shape,
    _forward,
    _backward,
    _kept,
)
FLATTEN = LayerKind(
    "Flatten",
    "All values of a sample in one row.",
    {"data_format": DATA_FORMAT},
    _flat_shape,
    view=True,
)
RESHAPE = LayerKind(
    "Reshape",
    "The same values in another shape.",
    {"target_shape": Setting(sizes, required=True)},
    _reshape,
    view=True,
)
PERMUTE = LayerKind(
    "Permute",
    "Axes in another order.",
    {"dims": Setting(sizes, required=True)},
    _permuted,
    _moved,
    _moved_back,
)
KINDS = (DENSE, FLATTEN, RESHAPE, PERMUTE)
