"""Reductions over replicas and copies between the IPUs of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_HOPS = {1: 0, 2: 2, 4: 6, 8: 8, 16: 12, 64: 36}
"""There and back over the rows and columns that so many IPUs form; 4 form a ring."""


def collective_hops(ipus: int) -> int:
    """Count the hops of a reduction over some IPUs of one rack."""
    if ipus in _HOPS:
        return _HOPS[ipus]
    rows = 4 if ipus >= 16 else 2
    columns = -(-ipus // rows)
    return 2 * ((rows - 1) + (columns - 1))


def count_collectives(tensor_bytes: Sequence[int], buffer_bytes: int) -> int:
    """Count the reductions after merging neighbours into a buffer; 0 merges none."""
    if buffer_bytes <= 0:
        return len(tensor_bytes)
    merged, filled = 0, buffer_bytes
    for size in tensor_bytes:
        if filled + size > buffer_bytes:
            merged, filled = merged + 1, 0
        filled += size
    return merged


def all_reduce_us(
    total_bytes: int,
    replicas: int,
    collectives: float,
    constants: Mapping[str, float],
    ipus_per_replica: int = 1,
) -> float:
    """Return the time of summing gradients over replicas, once per weight update.

    The bytes are those of the IPU of a replica that has most to reduce.
    """
    return _collective_us(
        total_bytes, replicas, collectives, constants, ipus_per_replica, ways=2
    )


def all_gather_us(
    total_bytes: int,
    replicas: int,
    collectives: float,
    constants: Mapping[str, float],
    ipus_per_replica: int = 1,
) -> float:
    """Return the time in which every replica gets what all of them hold together.

    A sum shares out its parts and then gathers them: this is the second half of it.
    """
    return _collective_us(
        total_bytes, replicas, collectives, constants, ipus_per_replica, ways=1
    )


def _collective_us(
    total_bytes: int,
    replicas: int,
    collectives: float,
    constants: Mapping[str, float],
    ipus_per_replica: int,
    *,
    ways: int,
) -> float:
    if replicas < 2 or not collectives:
        return 0.0
    rack = max(int(constants["rack_ipus"]) // ipus_per_replica, 1)
    inside = min(replicas, rack)
    hops = ways * collective_hops(inside) / 2
    fixed = constants["collective_us"] + constants["hop_us"] * hops
    rate = constants["pair_gb_s"] if inside == 2 else constants["ring_gb_s"]
    moved = ways * (inside - 1) / inside * total_bytes
    time = collectives * fixed + moved / (rate * 1e3)
    if replicas > rack:
        racks = -(-replicas // rack)
        # What the IPUs of a machine hold goes through its gateway once, however many
        # of them hold the same.
        held = total_bytes * min(ipus_per_replica, int(constants["machine_ipus"]))
        crossing = ways * (racks - 1) / racks * held
        time += collectives * constants["rack_us"]
        time += crossing / (constants["rack_gb_s"] * 1e3)
    return time


def physical_order(selection_order: str, ipus: int, default_mapping: bool) -> list[int]:
    """Return the place of every logical IPU on a ladder of two columns."""
    order = selection_order.rpartition(".")[2].upper()
    if order == "AUTO":
        order = "SNAKE" if default_mapping else "ZIGZAG"
    if order == "SNAKE":
        return [place ^ 1 if place % 4 >= 2 else place for place in range(ipus)]
    if order == "HOOF":
        up = list(range(0, ipus, 2))
        return up + [place for place in range(ipus - 1, 0, -1) if place % 2]
    return list(range(ipus))


def transfer_us(
    size_bytes: int, source: int, target: int, constants: Mapping[str, float]
) -> float:
    """Return the time of one transfer between two places of the ladder."""
    if source == target or not size_bytes:
        return 0.0
    rows = abs(source // 2 - target // 2)
    columns = abs(source % 2 - target % 2)
    rate = constants["pair_gb_s"] if not rows else constants["link_gb_s"]
    further = constants["hop_us"] * (rows + columns - 1)
    return constants["copy_us"] + further + size_bytes / (rate * 1e3)
