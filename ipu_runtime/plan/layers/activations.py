"""The `activation` setting that several layers share."""

from __future__ import annotations

from typing import Any

from ipu_runtime.plan.config.field import nearest
from ipu_runtime.plan.layers.kind import Kept
from ipu_runtime.plan.layers.setting import Setting, SettingError
from ipu_runtime.plan.model.operations import Extent, Operation, OpKind

KNOWN_ACTIVATIONS = (
    "celu",
    "elu",
    "exponential",
    "gelu",
    "glu",
    "hard_shrink",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_shrink",
    "softmax",
    "softplus",
    "softsign",
    "sparse_plus",
    "sparse_sigmoid",
    "sparsemax",
    "squareplus",
    "swish",
    "tanh",
    "tanh_shrink",
    "threshold",
)


def activation_name(value: Any) -> str:
    """Read the name of an activation; none is `linear`."""
    if value is None or value == "":
        return "linear"
    if not isinstance(value, str):
        raise SettingError("must be the name of an activation")
    if value not in KNOWN_ACTIVATIONS:
        guess = nearest(value, KNOWN_ACTIVATIONS)
        raise SettingError(
            f"did you mean {guess}?"
            if guess
            else f"must be one of {', '.join(KNOWN_ACTIVATIONS)}"
        )
    return value


ACTIVATION = Setting(activation_name, "linear")


def activation(name: str, values: Extent, *, first: bool = False) -> list[Operation]:
    """List what an activation does; `linear` does nothing."""
    if name == "linear":
        return []
    return [Operation(OpKind.ACTIVATION, name, (values,), first=first)]


def kept_by_activation(activation: str, values: int, kept: Kept) -> Kept:
    """Add what an activation at the end of a layer keeps to what the layer keeps."""
    if activation == "linear":
        return kept
    if activation in ("gelu", "silu", "swish", "mish"):
        return kept._replace(values=kept.values + values)
    return kept._replace(output=True)
