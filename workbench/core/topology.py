"""The IPUs of an experiment: how many, in how many replicas."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_runtime.plan.replication import ipus_per_replica, replica_count
from workbench.core.experiment_spec import ExperimentSpec


@dataclass(frozen=True, slots=True)
class Topology:
    """How many IPUs an experiment has and how it shares them out."""

    ipus: int
    """IPUs of the first TensorFlow device; 0 on the CPU."""
    shards: int
    """IPUs that one copy of the model uses."""
    replicas: int
    """Copies of the model; 1 on the CPU, 0 if there are not IPUs enough for one."""

    @property
    def ipus_per_replica(self) -> int:
        """IPUs that one copy reserves."""
        return ipus_per_replica(self.shards)


def topology(spec: ExperimentSpec) -> Topology:
    """Return the IPUs and replicas of an experiment."""
    if spec.execution.api == "cpu":
        return Topology(ipus=0, shards=1, replicas=1)
    shards = 1
    if spec.pipeline.stages:
        mapping = spec.pipeline.device_mapping or spec.pipeline.stages
        shards = max(mapping) + 1
    ipus = selected_ipus(spec)
    return Topology(ipus, shards, replica_count(ipus, shards))


def selected_ipus(spec: ExperimentSpec) -> int:
    """Return the IPUs of the first device that the configuration selects."""
    selection = spec.ipu.get("auto_select_ipus") or 1
    return selection if isinstance(selection, int) else int(selection[0])
