"""Optimizers for graphs on the IPU: `ipu.optimizers`."""

from __future__ import annotations

from ipu_runtime.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_runtime.optimizers import (
    cross_replica_optimizer,
    gradient_accumulation_optimizer,
    ipu_optimizer,
    map_gradient_optimizer,
    sharded_optimizer,
)
from ipu_runtime.optimizers.cross_replica_optimizer import CrossReplicaOptimizer
from ipu_runtime.optimizers.gradient_accumulation_optimizer import (
    CrossReplicaGradientAccumulationOptimizer,
    CrossReplicaGradientAccumulationOptimizerV2,
    GradientAccumulationOptimizer,
    GradientAccumulationOptimizerV2,
)
from ipu_runtime.optimizers.ipu_optimizer import IpuOptimizer
from ipu_runtime.optimizers.map_gradient_optimizer import MapGradientOptimizer
from ipu_runtime.optimizers.sharded_optimizer import ShardedOptimizer

__all__ = [
    "CrossReplicaGradientAccumulationOptimizer",
    "CrossReplicaGradientAccumulationOptimizerV2",
    "CrossReplicaOptimizer",
    "GradientAccumulationOptimizer",
    "GradientAccumulationOptimizerV2",
    "GradientAccumulationReductionMethod",
    "IpuOptimizer",
    "MapGradientOptimizer",
    "ShardedOptimizer",
    "cross_replica_optimizer",
    "gradient_accumulation_optimizer",
    "ipu_optimizer",
    "map_gradient_optimizer",
    "sharded_optimizer",
]
