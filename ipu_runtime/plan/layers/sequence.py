"""Embedding and LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ipu_runtime.plan.layers.activations import activation, activation_name
from ipu_runtime.plan.layers.kind import (
    Kept,
    LayerKind,
    Settings,
    Shaped,
    ShapeError,
)
from ipu_runtime.plan.layers.setting import REQUIRED_INT, Setting, share, truth
from ipu_runtime.plan.model.model_spec import Layer, Shape, Weight
from ipu_runtime.plan.model.operations import Operation, OpKind


def _embedded(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    table = (settings["input_dim"], settings["output_dim"])
    return Shaped((*inputs[0], table[1]), (Weight("embeddings", table),))


def _look_up(layer: Layer, training: bool) -> Sequence[Operation]:
    shape = (-layer.output_size,)
    return (Operation(OpKind.GATHER, "look up", shape, trains=True, first=True),)


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
    return Shaped(output, tuple(weights))


def _lstm_sizes(layer: Layer) -> tuple[int, int, int]:
    steps, features = layer.input_shapes[0]
    return steps, features, LSTM.complete(layer.spec.settings)["units"]


def _lstm(layer: Layer, training: bool) -> Sequence[Operation]:
    """List the loop over time steps that Keras writes, as XLA compiles it.

    The cell of PopLibs, with one product and one pass over its gates in every step, is
    what `PopnnLSTM` calls.
    """
    steps, features, units = _lstm_sizes(layer)
    settings = LSTM.complete(layer.spec.settings)
    gates = 4 * units
    drop = Operation(
        OpKind.ELEMENTWISE, "dropout", (-features,), gradient_cycles=2, first=True
    )
    every = [
        Operation(OpKind.GATHER, "time step", (-features,), first=True),
        *[drop] * (training and settings["dropout"] > 0),
        Operation(
            OpKind.MATMUL, "matmul", (-1, features, gates), trains=True, first=True
        ),
        Operation(OpKind.MATMUL, "recurrent matmul", (-1, units, gates), trains=True),
        Operation(OpKind.ELEMENTWISE, "sum", (-gates,)),
        *[Operation(OpKind.BIAS, "bias add", (-gates, gates), trains=True)]
        * settings["use_bias"],
        Operation(OpKind.COPY, "gates", (-gates,)),
        *activation(settings["recurrent_activation"], -units) * 3,
        *activation(settings["activation"], -units) * 2,
        # Two products and a sum, and one product; both have states to add up.
        Operation(OpKind.ELEMENTWISE, "cell", (-units,), cycles=4, gradient_cycles=6),
        Operation(OpKind.ELEMENTWISE, "output", (-units,), gradient_cycles=4),
        Operation(OpKind.SCATTER, "result", (-units,)),
    ]
    turn = Operation(OpKind.TRANSPOSE, "time first", (-steps * features,), first=True)
    before = [turn] * (2 if settings["go_backwards"] else 1)
    if training and settings["dropout"]:
        before.append(Operation(OpKind.RANDOM, "dropout mask", (-features,)))
    if settings["return_sequences"]:
        last = Operation(OpKind.TRANSPOSE, "batch first", (-steps * units,))
    else:
        last = Operation(OpKind.COPY, "last result", (-units,))
    return [*before, *(replace(op, repeat=steps) for op in every), last]


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
    _lstm,
    _lstm_kept,
)
KINDS = (EMBEDDING, LSTM)
