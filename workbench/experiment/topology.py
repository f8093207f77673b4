"""The IPUs of an experiment: how many, in how many replicas."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_runtime.plan.hardware import HardwareFileError, find_system
from ipu_runtime.plan.request import PipelineRequest
from ipu_runtime.plan.rules.replica_counts import ipus_per_replica, shard_count
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.locations import hardware_file


@dataclass(frozen=True, slots=True)
class Topology:
    """How many IPUs an experiment has and how it shares them out."""

    ipus: int
    """IPUs of the first TensorFlow device; 0 on the CPU."""
    shards: int
    """IPUs that one copy of the model uses."""
    ipus_per_replica: int
    """IPUs that one copy of the model reserves."""
    replicas: int
    """Copies of the model; 1 on the CPU, 0 if there are not IPUs enough for one."""


def topology(spec: ExperimentSpec) -> Topology:
    """Return the IPUs and replicas of an experiment."""
    if spec.execution.api == "cpu":
        return Topology(ipus=0, shards=1, ipus_per_replica=1, replicas=1)
    ipus, cut = selected_ipus(spec), None
    if spec.pipeline.stages:
        mapping = spec.pipeline.device_mapping
        cut = PipelineRequest(spec.pipeline.stages, device_mapping=mapping)
    reserved = ipus_per_replica(cut)
    return Topology(ipus, shard_count(cut), reserved, ipus // reserved)


def selected_ipus(spec: ExperimentSpec) -> int:
    """Return the IPUs of the first device that the configuration selects."""
    selection = spec.ipu.get("auto_select_ipus") or 1
    return selection if isinstance(selection, int) else int(selection[0])


def has_ipus(spec: ExperimentSpec) -> bool:
    """Tell whether the system has the IPUs that the experiment selects."""
    try:
        system = find_system(spec.execution.system, hardware_file())
    except HardwareFileError:
        return False  # The plan says what is wrong with the file.
    return system is not None and selected_ipus(spec) <= system.ipus
