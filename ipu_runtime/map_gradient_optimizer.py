"""The older place of `ipu.optimizers.MapGradientOptimizer`."""

from __future__ import annotations

from ipu_runtime.optimizers.map_gradient_optimizer import MapGradientOptimizer

__all__ = ["MapGradientOptimizer"]
