"""`popdist`: how many processes share a distributed job; one, without `poprun`.

Under a real `poprun` its environment is read, but the emulator has no connection
between processes: each one works alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any, TypeVar

T = TypeVar("T")

_TOTAL = "POPDIST_NUM_TOTAL_REPLICAS"
_LOCAL = "POPDIST_NUM_LOCAL_REPLICAS"


def init() -> None:
    """Join the job; there is nothing to join in the emulator."""


def finalizeBackend() -> None:
    """Leave the job; there is nothing to leave in the emulator."""


def isPopdistEnvSet() -> bool:
    """Tell whether `poprun` started this process."""
    return _TOTAL in os.environ


def getNumTotalReplicas() -> int:
    """Return the replicas of all processes."""
    return _number(_TOTAL, 1)


def getNumLocalReplicas() -> int:
    """Return the replicas of this process."""
    return _number(_LOCAL, 1)


def getNumIpusPerReplica() -> int:
    """Return the IPUs of one replica."""
    return _number("POPDIST_NUM_IPUS_PER_REPLICA", 1)


def getReplicaIndexOffset() -> int:
    """Return the first replica of this process."""
    return _number("POPDIST_REPLICA_INDEX_OFFSET", 0)


def getNumInstances() -> int:
    """Return the number of processes."""
    return max(1, getNumTotalReplicas() // max(1, getNumLocalReplicas()))


def getInstanceIndex() -> int:
    """Return the index of this process."""
    return getReplicaIndexOffset() // max(1, getNumLocalReplicas())


def getLocalInstanceIndex() -> int:
    """Return the index of this process on its host."""
    return _number("POPDIST_LOCAL_INSTANCE_INDEX", 0)


def getDeviceId(ipusPerReplica: int = 0) -> int:
    """Return the id of a device with enough IPUs for this process."""
    del ipusPerReplica  # Every emulated device has as many IPUs as are asked for.
    return 0


def checkNumIpusPerReplica(numIpusPerReplica: int) -> None:
    """Raise unless `poprun` was told the same number of IPUs per replica."""
    expected = getNumIpusPerReplica()
    if numIpusPerReplica != expected:
        raise RuntimeError(
            f"The model needs {numIpusPerReplica} IPUs per replica, but poprun was "
            f"started with --ipus-per-replica {expected}."
        )


def execute_on_instances(
    instances: Collection[int], func: Callable[..., T], *args: Any, **kwargs: Any
) -> T | None:
    """Call a function in some of the processes only."""
    return func(*args, **kwargs) if getInstanceIndex() in instances else None


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")
    if not text:
        return default
    if not text.isdecimal():
        raise ValueError(f"{variable}={text!r} must be a whole number")
    return int(text)
