"""`keras.ipu.optimizers`: wrappers around Keras optimizers."""

from ipu_runtime.keras.optimizers.als_optimizer import (
    ALSGradientAccumulationOptimizer,
    ALSOptimizer,
)
from ipu_runtime.keras.optimizers.gradient_accumulation_optimizer import (
    GradientAccumulationOptimizer,
)
from ipu_runtime.keras.optimizers.named_als_optimizers import (
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
