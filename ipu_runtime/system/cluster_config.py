"""The processes of a job, as `TF_CONFIG` names them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

VARIABLE = "TF_CONFIG"
_MEMBERS = ("chief", "worker")
"""Tasks that train, the chief first; others of a cluster take no part."""


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
