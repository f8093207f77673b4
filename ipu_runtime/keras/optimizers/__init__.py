"""`keras.ipu.optimizers`: wrappers around Keras optimizers."""

from ipu_runtime.keras.optimizers.gradient_accumulation import (
    ALSGradientAccumulationOptimizer,
    GradientAccumulationOptimizer,
)
from ipu_runtime.keras.optimizers.loss_scaling import (
    ALSOptimizer,
    ALSOptimizerAdam,
    ALSOptimizerRMSProp,
    ALSOptimizerSGD,
)

__all__ = [
    "ALSGradientAccumulationOptimizer",
    "ALSOptimizer",
    "ALSOptimizerAdam",
    "ALSOptimizerRMSProp",
    "ALSOptimizerSGD",
    "GradientAccumulationOptimizer",
]
