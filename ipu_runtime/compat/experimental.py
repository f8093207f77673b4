"""`keras.experimental` and `keras.mixed_precision.experimental` of Keras 2."""

from __future__ import annotations

from ipu_runtime.compat.habits import hint
from ipu_runtime.frameworks.keras_api import keras

__all__ = [
    "CosineDecay",
    "CosineDecayRestarts",
    "Policy",
    "global_policy",
    "set_policy",
]

Policy = keras.mixed_precision.DTypePolicy
global_policy = keras.mixed_precision.dtype_policy
set_policy = keras.mixed_precision.set_dtype_policy
CosineDecay = keras.optimizers.schedules.CosineDecay
CosineDecayRestarts = keras.optimizers.schedules.CosineDecayRestarts

hint("keras.experimental")
