"""Which process of a distributed job this one is.

`poprun` tells it in `POPDIST_*`. Others who start processes give `TF_CONFIG`, which is
enough: what `POPDIST_*` leaves out follows from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

VARIABLE = "TF_CONFIG"
_MEMBERS = ("chief", "worker")
"""Tasks that train, the chief first; others of a cluster take no part."""

_TOTAL = "POPDIST_NUM_TOTAL_REPLICAS"
_LOCAL = "POPDIST_NUM_LOCAL_REPLICAS"
_IPUS = "POPDIST_NUM_IPUS_PER_REPLICA"
_OFFSET = "POPDIST_REPLICA_INDEX_OFFSET"
_LOCAL_INDEX = "POPDIST_LOCAL_INSTANCE_INDEX"


@dataclass(frozen=True, slots=True)
class Instance:
    """One process of a job; the only one where nobody has started others."""

    launched: bool = False
    """Whether this process was started as part of a job."""
    total_replicas: int = 1
    """Replicas of all processes."""
    local_replicas: int = 1
    ipus_per_replica: int = 1
    replica_offset: int = 0
    """First replica of this process."""
    local_index: int = 0
    """Index of this process on its host."""
    local_count: int = 1
    """Processes on its host."""

    @property
    def count(self) -> int:
        """Number of processes."""
        return max(1, self.total_replicas // max(1, self.local_replicas))

    @property
    def index(self) -> int:
        """Index of this process."""
        return self.replica_offset // max(1, self.local_replicas)

    @property
    def environment(self) -> dict[str, str]:
        """What tells a process that it is this one."""
        numbers = {
            _TOTAL: self.total_replicas,
            _LOCAL: self.local_replicas,
            _IPUS: self.ipus_per_replica,
            _OFFSET: self.replica_offset,
            "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE": 1,
            _LOCAL_INDEX: self.local_index,
        }
        return {name: str(number) for name, number in numbers.items()}


def instance_of(
    index: int,
    instances: int,
    replicas: int,
    ipus_per_replica: int = 1,
    instances_per_host: int | None = None,
) -> Instance:
    """Return a process of a job that shares replicas and hosts out evenly."""
    local = replicas // instances
    return Instance(
        launched=True,
        total_replicas=replicas,
        local_replicas=local,
        ipus_per_replica=ipus_per_replica,
        replica_offset=index * local,
        local_index=index % (instances_per_host or instances),
    )


def current_instance(environment: Mapping[str, str] = os.environ) -> Instance:
    """Return this process's place in its job, as the environment has it now."""

    def number(variable: str, default: int) -> int:
        text = environment.get(variable, "")
        if not text:
            return default
        if not text.isdecimal():
            raise ValueError(f"{variable}={text!r} must be a whole number")
        return int(text)

    cluster = cluster_config(environment)
    processes, neighbours = max(1, len(cluster.addresses)), cluster.on_this_host
    total = number(_TOTAL, 0)
    local = number(_LOCAL, max(1, total // processes))
    place = neighbours.index(cluster.index) if neighbours else 0
    return Instance(
        launched=_TOTAL in environment or processes > 1,
        total_replicas=total or local * processes,
        local_replicas=local,
        ipus_per_replica=number(_IPUS, 1),
        replica_offset=number(_OFFSET, local * cluster.index),
        local_index=number(_LOCAL_INDEX, place),
        local_count=max(1, len(neighbours)),
    )


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """Where the processes of a job are, and which one this is."""

    addresses: tuple[str, ...] = ()
    """Host and port of each; none where `TF_CONFIG` names no cluster."""
    index: int = 0

    @property
    def on_this_host(self) -> list[int]:
        """The processes that have this one's host."""
        hosts = [address.rpartition(":")[0] for address in self.addresses]
        return [
            number for number, host in enumerate(hosts) if host == hosts[self.index]
        ]


def cluster_config(environment: Mapping[str, str]) -> ClusterConfig:
    """Read `TF_CONFIG`; raise if it cannot be understood."""
    text = environment.get(VARIABLE, "")
    if not text.strip():
        return ClusterConfig()
    try:
        given = json.loads(text)
        cluster, task = given.get("cluster", {}), given.get("task", {})
        tasks = {kind: list(cluster.get(kind, ())) for kind in _MEMBERS}
        kind, index = task.get("type"), int(task.get("index", 0))
    except (ValueError, TypeError, AttributeError):
        raise ValueError(
            f"{VARIABLE}={text!r} must be a JSON object with 'cluster' and 'task'"
        ) from None
    if kind not in _MEMBERS:
        return ClusterConfig()
    if not 0 <= index < len(tasks[kind]):
        raise ValueError(
            f"{VARIABLE}: this task is {kind} {index}, but the cluster has "
            f"{len(tasks[kind])} of them"
        )
    before = len(tasks["chief"]) if kind == "worker" else 0
    return ClusterConfig((*tasks["chief"], *tasks["worker"]), before + index)
