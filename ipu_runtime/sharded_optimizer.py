"""The older place of `ipu.optimizers.ShardedOptimizer`."""

from __future__ import annotations

from ipu_runtime.optimizers.sharded_optimizer import ShardedOptimizer

__all__ = ["ShardedOptimizer"]
