"""All-reduce times of the reference table, merging, and copies by distance."""

from __future__ import annotations

import pytest

from ipu_runtime.plan.costs.host_io import host_rate_gb_s
from ipu_runtime.plan.costs.links import (
    all_reduce_us,
    count_collectives,
    physical_order,
    transfer_us,
)
from ipu_runtime.plan.hardware import load_table

CONSTANTS = load_table().values


@pytest.mark.parametrize(
    ("replicas", "small_us", "large_ms"),
    [(2, 48, 0.95), (4, 64, 2.4), (8, 71, 2.8), (16, 83, 3.0), (64, 156, 3.2)],
)
def test_all_reduce_of_the_reference_table(
    replicas: int, small_us: float, large_ms: float
) -> None:
    small = all_reduce_us(139_304, replicas, 6, CONSTANTS)
    large = all_reduce_us(51_000_000, replicas, 1, CONSTANTS)
    assert small == pytest.approx(small_us, abs=0.6)
    assert large / 1e3 == pytest.approx(large_ms, abs=0.06)


@pytest.mark.parametrize(("replicas", "racks"), [(128, 2), (256, 4)])
def test_racks_add_gateway_time(replicas: int, racks: int) -> None:
    inside = all_reduce_us(51_000_000, 64, 1, CONSTANTS)
    across = all_reduce_us(51_000_000, replicas, 1, CONSTANTS)
    # Two links of 100 Gbit/s of a machine, 85 % of it, there and back.
    wire_us = 2 * (racks - 1) / racks * 51e6 / (0.85 * 2 * 100e9 / 8) * 1e6
    assert across - inside == pytest.approx(30 + wire_us)


# Milliseconds of a weight update of ResNet-50 in MLPerf's result logs, and its
# micro-batches. Two of them give the time of a micro-batch, as nothing else differs.
LOGGED = {16: (107.9, 10), 64: (35.5, 3), 128: (27.6, 2), 256: (29.4, 2)}


@pytest.mark.parametrize("replicas", [128, 256])
def test_racks_cost_what_result_logs_show(replicas: int) -> None:
    micro_batch = (LOGGED[16][0] - LOGGED[64][0]) / (LOGGED[16][1] - LOGGED[64][1])
    rest = {ipus: ms - count * micro_batch for ipus, (ms, count) in LOGGED.items()}
    inside = all_reduce_us(51_114_128, 64, 1, CONSTANTS)
    across = all_reduce_us(51_114_128, replicas, 1, CONSTANTS)
    assert (across - inside) / 1e3 == pytest.approx(rest[replicas] - rest[64], rel=0.15)


def test_replicas_of_several_ipus_fill_racks_sooner() -> None:
    inside = all_reduce_us(10_000_000, 16, 1, CONSTANTS, ipus_per_replica=4)
    across = all_reduce_us(10_000_000, 64, 1, CONSTANTS, ipus_per_replica=4)
    assert inside == all_reduce_us(10_000_000, 16, 1, CONSTANTS)
    # The four stages of a machine have four times as much to send.
    assert across - inside == pytest.approx(30 + 1.5 * 4 * 1e7 / 21.25e3)


def test_every_collective_crosses_racks() -> None:
    one, two = (all_reduce_us(1000, 128, n, CONSTANTS) for n in (1, 2))
    inside = all_reduce_us(1000, 64, 2, CONSTANTS) - all_reduce_us(
        1000, 64, 1, CONSTANTS
    )
    assert two - one == pytest.approx(inside + 30)


def test_one_replica_reduces_nothing() -> None:
    assert all_reduce_us(139_304, 1, 6, CONSTANTS) == 0


@pytest.mark.parametrize(
    ("buffer", "count"), [(0, 4), (10, 3), (30, 2), (100, 1), (5, 4)]
)
def test_a_buffer_merges_neighbouring_gradients(buffer: int, count: int) -> None:
    assert count_collectives([8, 2, 20, 10], buffer) == count


def test_orders_of_sixteen_ipus() -> None:
    assert physical_order("SNAKE", 16, True) == [
        0, 1, 3, 2, 4, 5, 7, 6, 8, 9, 11, 10, 12, 13, 15, 14,
    ]  # fmt: skip
    assert physical_order("HOOF", 16, True) == [
        0, 2, 4, 6, 8, 10, 12, 14, 15, 13, 11, 9, 7, 5, 3, 1,
    ]  # fmt: skip
    assert physical_order("AUTO", 4, True) == [0, 1, 3, 2]
    assert physical_order("AUTO", 4, False) == [0, 1, 2, 3]


def test_copies_take_longer_the_further_they_go() -> None:
    pair = transfer_us(10**6, 0, 1, CONSTANTS)
    up = transfer_us(10**6, 1, 3, CONSTANTS)
    diagonal = transfer_us(10**6, 1, 2, CONSTANTS)
    assert pair == pytest.approx(5 + 1e6 / 54e3)
    assert up == pytest.approx(5 + 1e6 / 27e3)
    assert diagonal == pytest.approx(5.5 + 1e6 / 27e3)
    assert transfer_us(10**6, 2, 2, CONSTANTS) == 0


@pytest.mark.parametrize(
    ("replicas", "ipus_each", "rate"),
    [(1, 1, 5.5), (2, 1, 5.5), (4, 1, 2.75), (16, 1, 2.75), (8, 2, 5.5), (4, 4, 5.5)],
)
def test_replicas_of_a_machine_share_its_host_link(
    replicas: int, ipus_each: int, rate: float
) -> None:
    system = load_table().systems["Pod16"]
    assert host_rate_gb_s(system, replicas, ipus_each) == pytest.approx(rate)
