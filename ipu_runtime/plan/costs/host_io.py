"""What the host costs: starting executions and streaming samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ipu_runtime.plan.hardware import System


class StreamOptions(NamedTuple):
    """How samples travel from the host to the device."""

    prefetch: bool = True
    merged: bool = True
    """Whether all tensors of a step make one copy."""


def host_rate_gb_s(system: System, replicas: int, ipus_per_replica: int) -> float:
    """Return what one streaming IPU gets when others of its machine stream too."""
    per_machine = max(system.ipus_per_machine // ipus_per_replica, 1)
    streaming = min(max(replicas, 1), per_machine)
    return min(system.ipu.host_gb_s, system.ipu.machine_host_gb_s / streaming)


def feed_us(
    size_bytes: int,
    ipus: int,
    replicas: int,
    hosts: int,
    system: System,
    constants: Mapping[str, float],
) -> float:
    """Return the time in which a host sends a step's data to the machines it feeds.

    They are fetched ahead, so that only what takes longer than a step is waited for.
    """
    machines = -(-ipus // (system.ipus_per_machine * hosts))
    rate = machines * system.ipu.machine_host_gb_s
    if ipus > constants["direct_ipus"]:
        rate = min(rate, constants["host_server_gb_s"])
    return size_bytes * replicas / hosts / (rate * 1e3)


def host_sync_us(hosts: int, constants: Mapping[str, float]) -> float:
    """Return what it takes hosts to begin an execution together."""
    return constants["host_sync_us"] * (hosts - 1).bit_length()


def broadcast_us(
    size_bytes: float, hosts: int, constants: Mapping[str, float]
) -> float:
    """Return the time of values from the first host to all others, pair by pair."""
    return (hosts - 1).bit_length() * size_bytes / (constants["host_server_gb_s"] * 1e3)


def infeed_us(
    size_bytes: int,
    tensors: int,
    rate_gb_s: float,
    options: StreamOptions,
    constants: Mapping[str, float],
) -> float:
    """Return the time of one micro-batch from the host."""
    copies = 1 if options.merged else max(tensors, 1)
    wait = 0.0 if options.prefetch else constants["stream_miss_us"]
    return copies * constants["infeed_us"] + wait + size_bytes / (rate_gb_s * 1e3)


def outfeed_us(
    size_bytes: int, rate_gb_s: float, constants: Mapping[str, float]
) -> float:
    """Return the time of results that go back in every step, as predictions do."""
    return constants["infeed_us"] + size_bytes / (rate_gb_s * 1e3)
