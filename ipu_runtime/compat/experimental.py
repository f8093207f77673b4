"""`keras.experimental` and `keras.mixed_precision.experimental` of Keras 2."""

from __future__ import annotations

from keras.mixed_precision import DTypePolicy as Policy
from keras.mixed_precision import dtype_policy as global_policy
from keras.mixed_precision import set_dtype_policy as set_policy
from keras.optimizers.schedules import CosineDecay, CosineDecayRestarts

from ipu_runtime.compat.habits import hint

__all__ = [
    "CosineDecay",
    "CosineDecayRestarts",
    "Policy",
    "global_policy",
    "set_policy",
]

hint("keras.experimental")
