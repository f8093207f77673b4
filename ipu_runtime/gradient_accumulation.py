"""How gradients of several micro-batches become one: `ipu.gradient_accumulation`."""

from ipu_runtime.engine.describe.model_options import (
    GradientAccumulationReductionMethod,
)

__all__ = ["GradientAccumulationReductionMethod"]
