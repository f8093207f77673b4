"""The walk through a program's memory in words: its peak, and what is alive there."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_runtime.plan.memory.memory_walk import MemoryWalk
from ipu_runtime.plan.plan import ALWAYS_LIVE
from ipu_runtime.plan.quantities import byte_size, share

_ALIVE = 8


def fullest_walk(walks: Sequence[MemoryWalk]) -> MemoryWalk:
    """Return the walk of the IPU that decides whether the program fits."""
    return max(walks, key=lambda walk: walk.memory.fullest_tile_bytes)


def peak_sentence(walk: MemoryWalk) -> str:
    """Say where the fullest step is and what it has."""
    step, memory = walk.steps[walk.peak], walk.memory
    where = f"{step.name} of {step.layer}" if step.layer else "the weight update"
    return (
        f"Fullest at program step {walk.peak + 1} of {len(walk.steps)}, {where}: sum "
        f"over tiles {byte_size(memory.used_bytes)}, of it "
        f"{byte_size(memory.always_live_bytes)} always live; "
        f"memory {share(memory.memory_fraction)} (fullest tile)"
    )


def alive_rows(walk: MemoryWalk, most: int = _ALIVE) -> list[tuple[str, str, str]]:
    """Return name, kind and size of what is alive at the peak, the rest as one row."""
    shown = [(item.name, item.kind, byte_size(item.size)) for item in walk.alive[:most]]
    left = walk.alive[most:]
    if left:
        size = byte_size(sum(item.size for item in left))
        shown.append((f"{len(left)} more", "", size))
    return shown


def always_words(walk: MemoryWalk) -> str:
    """Return what is always live, the largest first."""
    sizes = {name: walk.memory.by_category[name] for name in ALWAYS_LIVE}
    if walk.memory.io_tiles:
        del sizes["io"]
    largest = sorted(sizes.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {byte_size(size)}" for name, size in largest if size)
