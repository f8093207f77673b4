"""The `activation` setting that several layers share."""

from __future__ import annotations

from typing import Any

from ipu_runtime.plan.config.field import nearest
from ipu_runtime.plan.costs.activation_costs import KNOWN_ACTIVATIONS, NO_ACTIVATION
from ipu_runtime.plan.layers.kind import Kept
from ipu_runtime.plan.layers.setting import Setting, SettingError


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


def kept_by_activation(activation: str, values: int, kept: Kept) -> Kept:
    """Add what an activation at the end of a layer keeps to what the layer keeps."""
    if activation in NO_ACTIVATION:
        return kept
    if activation in ("gelu", "silu", "swish", "mish"):
        return kept._replace(values=kept.values + values)
    return kept._replace(output=True)
