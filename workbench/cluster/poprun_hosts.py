"""`poprun --host a,b`: the instances of a script on machines of a Ray cluster."""

from __future__ import annotations

import os
import queue
import signal
import sys
from typing import Any

from ipu_runtime.popdist.launched_job import (
    Ended,
    cluster_environments,
    say,
    signals_told,
    wait_for,
)
from ipu_runtime.popdist.poprun_options import PoprunOptions
from ipu_runtime.system.ring_sockets import PublicAddressError
from workbench.cluster.hosted_process import News
from workbench.cluster.place import ClusterError, Place
from workbench.cluster.ray_cluster import (
    cluster_facts,
    connected,
    require_ray,
)
from workbench.cluster.ray_processes import (
    end_processes,
    follow,
    hosted_process,
)

_LOOK_EVERY_S = 0.2


def run_on_hosts(options: PoprunOptions) -> int:
    """Start all instances where the hosts say, and wait for them, as `run_job` does.

    The hosts have this package, and the script under the name that it has here.
    """
    try:
        with connected(Place("auto", options.network_allowed)):
            return _run(options, _nodes(options.hosts))
    except (ClusterError, PublicAddressError) as error:
        say(str(error))
        return 2


def _nodes(hosts: tuple[str, ...]) -> list[str]:
    """Return the ids of the cluster's machines with these names or addresses."""
    known: dict[str, str] = {}
    for node in cluster_facts().nodes:
        # Several nodes of one machine are told apart by their own names.
        for name in (node.name, node.host, node.address):
            known.setdefault(name, node.node_id)
    for host in hosts:
        if host not in known:
            names = ", ".join(sorted(known))
            raise ClusterError(f"--host {host}: the Ray cluster has only {names}")
    return [known[host] for host in hosts]


def _run(options: PoprunOptions, nodes: list[str]) -> int:
    ray = require_ray()
    ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
    per_host = options.instances // len(nodes)
    on_node = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    processes = [
        hosted_process(
            num_cpus=1,
            scheduling_strategy=on_node(nodes[index // per_host], soft=False),
        )
        for index in range(options.instances)
    ]
    try:
        with signals_told(ended):
            if not _start(options, processes, ended):
                return wait_for(options, 1, ended)
            for index, process in enumerate(processes):
                _show(options, index, process, ended)
            return wait_for(options, options.instances, ended)
    finally:
        end_processes(processes)


def _start(
    options: PoprunOptions, processes: list[Any], ended: queue.SimpleQueue[Ended]
) -> bool:
    """Start all once they have a place; tell whether nothing ended the job before."""
    ray = require_ray()
    asked = [process.place.remote() for process in processes]
    while ray.wait(asked, num_returns=len(asked), timeout=_LOOK_EVERY_S)[1]:
        if not ended.empty():
            return False
    addresses = [address for address, _ in ray.get(asked)]
    cluster = cluster_environments(addresses, options.network_allowed)
    ray.get(
        [
            process.start.remote(
                ("-m", "ipu_runtime", *options.command[1:]),
                _environment(options, index) | cluster[index],
                folder=os.getcwd(),
            )
            for index, process in enumerate(processes)
        ]
    )
    return True


def _environment(options: PoprunOptions, index: int) -> dict[str, str]:
    return {"PYTHONUNBUFFERED": "1", **options.environment(index)}


def _show(
    options: PoprunOptions,
    index: int,
    process: Any,
    ended: queue.SimpleQueue[Ended],
) -> None:
    """Copy what an instance writes, and tell when it ends."""
    shown = options.shown_instance in (None, index)

    def tell(news: News) -> None:
        errors = news.log.decode(errors="replace").splitlines()
        for lines, stream in ((news.lines, sys.stdout), (errors, sys.stderr)):
            for line in lines if shown else ():
                print(f"[{index}] {line.rstrip()}", file=stream, flush=True)
        if news.code is not None:
            ended.put((index, news.code))

    def lost(error: Exception) -> None:
        said = str(error).strip().partition("\n")[0]
        say(f"instance {index} is lost: {said}")
        ended.put((index, 128 + signal.SIGKILL))

    follow(process, tell, lost)
