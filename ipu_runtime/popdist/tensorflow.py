"""`popdist.tensorflow`: put a process's place in a distributed job into a config."""

from __future__ import annotations

from ipu_runtime import popdist
from ipu_runtime.config import IPUConfig


def set_ipu_config(
    config: IPUConfig,
    ipus_per_replica: int | None = None,
    configure_device: bool = True,
) -> IPUConfig:
    """Set process count and index, and select this process's IPUs."""
    distribution = config.experimental.multi_replica_distribution
    distribution.process_count = popdist.getNumInstances()
    distribution.process_index = popdist.getInstanceIndex()
    if configure_device:
        per_replica = ipus_per_replica or popdist.getNumIpusPerReplica()
        config.auto_select_ipus = per_replica * popdist.getNumTotalReplicas()
    return config
