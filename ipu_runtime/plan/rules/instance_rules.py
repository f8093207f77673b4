"""Rules for sharing replicas out among processes, and these among hosts."""

from __future__ import annotations

from collections.abc import Iterator

from ipu_runtime.plan.hardware import System
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.quantities import plural
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.replica_counts import ipus_per_replica, replica_count

_INSTANCES, _HOSTS = "execution.instances", "execution.hosts"


def check_instances(request: PlanRequest, system: System | None) -> Iterator[Problem]:
    """Yield what cannot be shared out evenly."""
    instances, hosts, replicas = (
        request.instances,
        request.hosts,
        replica_count(request),
    )
    if replicas and replicas % instances:
        yield Problem(
            _INSTANCES,
            f"{plural(replicas, 'replica')} cannot be shared out among {instances} "
            "instances",
            _divisors(replicas),
            suggestion=_nearest_divisor(replicas, instances),
        )
    ipus = replicas * ipus_per_replica(request.pipeline)
    if not hosts:
        yield from _check_usual_hosts(request, system, ipus)
        return
    if instances % hosts:
        yield Problem(
            _HOSTS,
            f"{plural(instances, 'instance')} cannot be spread over {hosts} hosts",
            f"{_divisors(instances)}, or another {_INSTANCES}",
            suggestion=_nearest_divisor(instances, hosts),
        )
        return
    machines = -(-ipus // system.ipus_per_machine) if system else hosts
    if replicas and hosts > machines:
        yield Problem(
            _HOSTS,
            f"{hosts} hosts are more than the machines of {ipus} IPUs ({machines}), "
            "each of which belongs to one",
            f"at most {machines}, or more IPUs",
            Severity.WARNING,
            suggestion=_nearest_divisor(instances, machines),
        )


def _check_usual_hosts(
    request: PlanRequest, system: System | None, ipus: int
) -> Iterator[Problem]:
    """Say that a process is on one host, where the system has more for its IPUs."""
    if system is None or ipus > system.ipus or not request.training:
        return
    hosts = system.usual_hosts(ipus)
    if request.instances % hosts:
        yield Problem(
            _INSTANCES,
            f"{ipus} IPUs of a {request.system} are sold with {hosts} hosts, which "
            f"{plural(request.instances, 'instance')} cannot be spread over; figures "
            "are for all of these hosts",
            f"{hosts} or a multiple, or {_HOSTS} = 1 for what one host can do",
            Severity.WARNING,
            suggestion=hosts,
        )


def _divisors(number: int) -> str:
    found = [str(item) for item in range(1, number + 1) if number % item == 0]
    *others, last = found
    return f"use {', '.join(others)} or {last}" if others else f"use {last}"


def _nearest_divisor(number: int, wanted: int) -> int:
    """Return the largest that is not more than was wanted."""
    return max(item for item in range(1, wanted + 1) if number % item == 0)
