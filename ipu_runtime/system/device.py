"""What a program needs to know about the emulated device that it runs on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ipu_runtime.plan.rules.replica_counts import reserved_ipus
from ipu_runtime.system.instances import Instance


@dataclass(frozen=True, slots=True)
class Device:
    """The IPUs behind a strategy at the moment when a program starts."""

    ipus: int = 1
    """IPUs that this process may use."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """IPUConfig fields that differ from their default, by dotted path."""
    system: str = "M2000"
    """Name of a system in the hardware table."""
    hardware_file: str = ""
    """TOML file that adds to the hardware table; empty means none."""
    check_memory: bool = True
    """False when `debug.allowOutOfMemory` is set: a model may then be too large."""
    loss_scale_replicas: int = 1
    """Replicas by which losses are divided; more than 1 only under PopDistStrategy."""
    instance: Instance = field(default_factory=Instance)
    """This process among those that train together; alone but with PopDistStrategy."""
    steady: bool = False
    """Whether plans are of a steady state, however few the samples are."""
    hosts: int = 0
    """Hosts that these processes are modelled on; 0 for those the system has."""
    seed: int = 0
    """Seed of everything random on the device (`reset_ipu_seed`)."""
    identical_replicas: bool = False
    """Whether all replicas round stochastically with the same seed."""

    def replicas(self, shard_count: int) -> int:
        """Return how often a model that needs `shard_count` IPUs fits."""
        return self.ipus // reserved_ipus(shard_count)
