"""Keras' own loss scaling beside the automatic loss scaling of the device."""

from __future__ import annotations

from typing import Any

from ipu_runtime.engine.build.programs.loss_scaling import loss_scaling_of
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.patch_points import loss_scaling_patch


class _Kind(type):
    def __instancecheck__(cls, optimizer: Any) -> bool:
        scales = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        return scales or loss_scaling_of(optimizer) is not None

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return keras.optimizers.LossScaleOptimizer(*args, **kwargs)


class _ScalingOptimizer(metaclass=_Kind):
    """Stands for every optimizer that scales losses, when `compile` asks."""


scaling_once = loss_scaling_patch(lambda original: _ScalingOptimizer)
"""Keeps `compile` from scaling losses twice under a mixed_float16 policy."""
