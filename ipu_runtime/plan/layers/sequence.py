"""Embedding and LSTM."""

from __future__ import annotations

from ipu_runtime.plan.costs.matrix_unit import MatrixShape
from ipu_runtime.plan.costs.op_costs import (
    ACTIVATION_GRADIENT,
    ADD,
    OTHER,
    Costing,
    OpCost,
)
from ipu_runtime.plan.layers.activations import activation_name
from ipu_runtime.plan.layers.kind import (
    Kept,
    LayerKind,
    Settings,
    Shaped,
    ShapeError,
)
from ipu_runtime.plan.layers.setting import REQUIRED_INT, Setting, share, truth
from ipu_runtime.plan.model.model_spec import Layer, Shape, Weight

_SUPERSTEPS_PER_TIME_STEP = 8


def _embedded(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    table = (settings["input_dim"], settings["output_dim"])
    return Shaped((*inputs[0], table[1]), (Weight("embeddings", table),))


def _look_up(layer: Layer, batch: int, cost: Costing) -> list[OpCost]:
    total = batch * layer.output_size
    return [cost.passes("look up", total, ADD, supersteps=3, moves=2)]


def _add_up(
    layer: Layer, batch: int, cost: Costing, input_gradient: bool
) -> list[OpCost]:
    total = batch * layer.output_size
    return [cost.passes("add to rows", total, ADD, count=2, supersteps=3, moves=2)]


def _keeps_input(layer: Layer) -> Kept:
    return Kept(input=True)


def _lstm_shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    if len(inputs[0]) != 2:
        raise ShapeError(
            f"needs an input of time steps and features, not {list(inputs[0])}"
        )
    steps, features = inputs[0]
    units = settings["units"]
    weights = [
        Weight("kernel", (features, 4 * units)),
        Weight("recurrent_kernel", (units, 4 * units)),
    ]
    if settings["use_bias"]:
        weights.append(Weight("bias", (4 * units,)))
    output = (steps, units) if settings["return_sequences"] else (units,)
    return Shaped(output, tuple(weights), steps * 4 * units * (features + units))


def _lstm_sizes(layer: Layer) -> tuple[int, int, int]:
    steps, features = layer.input_shapes[0]
    return steps, features, LSTM.complete(layer.spec.settings)["units"]


def _repeated(op: OpCost, times: int, supersteps: int) -> OpCost:
    """Repeat an op in a loop: its code is there once, its cycles every time."""
    return op._replace(
        compute=times * op.compute,
        exchange=times * op.exchange,
        supersteps=supersteps,
    )


def _lstm_forward(layer: Layer, batch: int, cost: Costing) -> list[OpCost]:
    steps, features, units = _lstm_sizes(layer)
    product = cost.matmul(
        "step matmul", MatrixShape(batch, features + units, 4 * units)
    )
    gates = cost.passes("gates", batch * units, OTHER, count=8)
    return [
        _repeated(product, steps, steps * (_SUPERSTEPS_PER_TIME_STEP - 2)),
        _repeated(gates, steps, steps * 2),
    ]


def _lstm_backward(
    layer: Layer, batch: int, cost: Costing, input_gradient: bool
) -> list[OpCost]:
    steps, features, units = _lstm_sizes(layer)
    product = cost.matmul(
        "step data gradient", MatrixShape(batch, 4 * units, features + units)
    )
    gates = cost.passes("gate gradients", batch * units, ACTIVATION_GRADIENT, count=8)
    rows = batch * steps
    ops = [
        _repeated(product, steps, steps * (_SUPERSTEPS_PER_TIME_STEP - 2)),
        _repeated(gates, steps, steps * 2),
        cost.matmul("weight gradient", MatrixShape(features + units, rows, 4 * units)),
    ]
    if any(weight.name == "bias" for weight in layer.weights):
        ops.append(cost.reduction("bias gradient", rows * 4 * units, 4 * units))
    return ops


def _lstm_kept(layer: Layer) -> Kept:
    steps, _, units = _lstm_sizes(layer)
    return Kept(input=True, values=steps * 6 * units)


EMBEDDING = LayerKind(
    "Embedding",
    "A row of a table for every whole number.",
    {
        "input_dim": REQUIRED_INT,
        "output_dim": REQUIRED_INT,
        "mask_zero": Setting(truth, False),
    },
    _embedded,
    _look_up,
    _add_up,
    _keeps_input,
)
LSTM = LayerKind(
    "LSTM",
    "A recurrent cell with a long memory.",
    {
        "units": REQUIRED_INT,
        "activation": Setting(activation_name, "tanh"),
        "recurrent_activation": Setting(activation_name, "sigmoid"),
        "use_bias": Setting(truth, True),
        "unit_forget_bias": Setting(truth, True),
        "dropout": Setting(share, 0.0),
        "recurrent_dropout": Setting(share, 0.0),
        "return_sequences": Setting(truth, False),
        "go_backwards": Setting(truth, False),
    },
    _lstm_shape,
    _lstm_forward,
    _lstm_backward,
    _lstm_kept,
)
KINDS = (EMBEDDING, LSTM)
