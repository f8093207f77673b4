"""`popdist`: how many processes share a distributed job; one, unless started so."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from ipu_runtime.system.cluster import join
from ipu_runtime.system.instances import current_instance

T = TypeVar("T")


def init() -> None:
    """Connect this process to the others of its job, if that is not done yet."""
    join()


def finalizeBackend() -> None:
    """Leave the job; connections end with the process."""


def isPopdistEnvSet() -> bool:
    """Tell whether this process was started as an instance of a job."""
    return current_instance().launched


def getNumTotalReplicas() -> int:
    """Return the replicas of all processes."""
    return current_instance().total_replicas


def getNumLocalReplicas() -> int:
    """Return the replicas of this process."""
    return current_instance().local_replicas


def getNumIpusPerReplica() -> int:
    """Return the IPUs of one replica."""
    return current_instance().ipus_per_replica


def getReplicaIndexOffset() -> int:
    """Return the first replica of this process."""
    return current_instance().replica_offset


def getNumInstances() -> int:
    """Return the number of processes."""
    return current_instance().count


def getInstanceIndex() -> int:
    """Return the index of this process."""
    return current_instance().index


def getLocalInstanceIndex() -> int:
    """Return the index of this process on its host."""
    return current_instance().local_index


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
