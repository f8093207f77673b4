"""Dense, and the layers that only change how values are arranged."""

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
from ipu_runtime.plan.layers.setting import (
    DATA_FORMAT,
    REQUIRED_INT,
    Setting,
    sizes,
    truth,
)
from ipu_runtime.plan.model.model_spec import Layer, Shape, Weight
from ipu_runtime.plan.model.operations import Operation, OpKind


def _dense_shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    if not inputs[0]:
        raise ShapeError("needs an input of at least one dimension")
    width, units = inputs[0][-1], settings["units"]
    weights = [Weight("kernel", (width, units))]
    if settings["use_bias"]:
        weights.append(Weight("bias", (units,)))
    return Shaped((*inputs[0][:-1], units), tuple(weights))


def _dense(layer: Layer, training: bool) -> Sequence[Operation]:
    settings = DENSE.complete(layer.spec.settings)
    rows = size_of(layer.input_shapes[0][:-1])
    width, units = layer.input_shapes[0][-1], settings["units"]
    matmul = Operation(
        OpKind.MATMUL, "matmul", (-rows, width, units), trains=True, first=True
    )
    bias = Operation(OpKind.BIAS, "bias add", (-rows * units, units), trains=True)
    return (
        matmul,
        *[bias] * settings["use_bias"],
        *activation(settings["activation"], -rows * units),
    )


def _kept(layer: Layer) -> Kept:
    name = DENSE.complete(layer.spec.settings)["activation"]
    return kept_by_activation(name, layer.output_size, Kept(input=True))


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


def _moved(layer: Layer, training: bool) -> Sequence[Operation]:
    shape = (-layer.output_size,)
    return (Operation(OpKind.TRANSPOSE, "transpose", shape, first=True),)


DENSE = LayerKind(
    "Dense",
    "Every output value is a weighted sum of all values of the last axis.",
    {
        "units": REQUIRED_INT,
        "activation": ACTIVATION,
        "use_bias": Setting(truth, True),
    },
    _dense_shape,
    _dense,
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
)
KINDS = (DENSE, FLATTEN, RESHAPE, PERMUTE)
