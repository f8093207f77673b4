"""`ipu.horovod.ipu_multi_replica_strategy`: PopDistStrategy by its older name."""

from __future__ import annotations

from ipu_runtime.distributed.popdist_strategy import PopDistStrategy

IPUMultiReplicaStrategy = IPUMultiReplicaStrategyV1 = PopDistStrategy
