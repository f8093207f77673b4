"""The older place of `ipu.optimizers.IpuOptimizer`."""

from __future__ import annotations

from ipu_runtime.optimizers.ipu_optimizer import IpuOptimizer

__all__ = ["IpuOptimizer"]
