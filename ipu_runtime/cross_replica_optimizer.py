"""The older place of `ipu.optimizers.CrossReplicaOptimizer`."""

from __future__ import annotations

from ipu_runtime.optimizers.cross_replica_optimizer import CrossReplicaOptimizer

__all__ = ["CrossReplicaOptimizer"]
