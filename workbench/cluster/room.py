"""Room on a cluster for the processes of a run, and how long it is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from workbench.cluster.memory_need import CPUS, memory_need
from workbench.cluster.ray_cluster import answered, cluster_facts, require_ray
from workbench.instances.instance_job import InstanceJob
from workbench.runs.run_context import NoMachines, RunControl

_LOOK_EVERY_S = 0.2


@contextmanager
def reserved(
    job: InstanceJob, control: RunControl, wait_s: float, tell: Callable[[str], None]
) -> Iterator[Any]:
    """Have a share of as many machines as a job has hosts.

    Machines that others use are waited for without end, those that are not there for
    `wait_s` seconds: they may come back, or the cluster may grow.
    """
    group = None
    lacking_since: float | None = None
    try:
        while not control.should_stop():
            lack, now = lack_of_room(job), time.monotonic()
            if not lack:
                lacking_since = None
                group = group or answered(partial(_asked_for, job))
                if answered(partial(_is_ready, group)):
                    yield group
                    return
            elif lacking_since is None:
                lacking_since = now
                tell(f"{lack}; waiting {wait_s:g} s for machines (--wait)")
            elif now - lacking_since >= wait_s:
                raise NoMachines(f"{lack}, for {wait_s:g} s (--wait)")
            control.stop.wait(_LOOK_EVERY_S)
        # A run that is interrupted before it begins can be resumed.
        raise KeyboardInterrupt
    finally:
        if group is not None:
            answered(partial(require_ray().util.remove_placement_group, group))


def lack_of_room(job: InstanceJob) -> str:
    """Return why the cluster could not take a job even if nobody else used it."""
    per_host = job.instances // job.hosts
    memory = memory_need(job.tables)
    facts = answered(cluster_facts)
    if facts is None:
        return "the cluster does not answer"
    fitting = [node for node in facts.nodes if node.places(CPUS, memory) >= per_host]
    if len(fitting) >= job.hosts:
        return ""
    return (
        f"the cluster has {len(fitting)} machines with room for {per_host} processes "
        f"of {CPUS} CPU and {memory / 2**30:.1f} GiB, and the run needs {job.hosts}"
    )


def _asked_for(job: InstanceJob) -> Any:
    per_host = job.instances // job.hosts
    share = {"CPU": CPUS * per_host, "memory": memory_need(job.tables) * per_host}
    placement_group = require_ray().util.placement_group
    return placement_group([share] * job.hosts, "STRICT_SPREAD")


def _is_ready(group: Any) -> bool:
    ready, _ = require_ray().wait([group.ready()], timeout=1.0)
    return bool(ready)
