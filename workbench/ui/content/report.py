"""The report's two columns: where time goes beside what was measured, and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ipu_runtime.plan.memory.memory_walk import MemoryWalk
from ipu_runtime.plan.plan import IpuMemory, Plan
from ipu_runtime.plan.quantities import byte_size, microseconds, share
from ipu_runtime.reports.document import (
    BAD,
    FILLED,
    MUTED,
    WARN,
    Column,
    Document,
    Line,
    Note,
    Part,
    Row,
    Section,
    Span,
    Table,
)
from ipu_runtime.reports.memory_sections import category_table, walk_parts
from ipu_runtime.reports.plan_document import (
    figures_section,
    layers_section,
    step_section,
)
from ipu_runtime.reports.plan_words import instance_sentence

_SHADES = "░▒▓█"
_SCALE = "from ░ the emptiest to █ the fullest tile, X too full"
_ALIVE = 4
_NEARLY_FULL = 0.75


def time_document(
    plan: Plan, measured_ms: float | None, overridden: Sequence[str]
) -> Document:
    """Return where a step's time goes, and what a run of the same took here.

    Args:
        overridden: What was laid over a script, as its record has it.
    """
    laid_over = tuple(Note(text, hanging=2) for text in overridden)
    processes = instance_sentence(plan)
    sections = (
        replace(step_section(plan), heading=""),
        figures_section(plan),
        Section("", (Note(processes, MUTED),) if processes else ()),
        Section("laid over the script", laid_over),
        _measured(plan, measured_ms),
        replace(layers_section(plan.layers), heading="layers with the most time"),
    )
    return Document("", tuple(section for section in sections if section.parts))


def _measured(plan: Plan, measured_ms: float | None) -> Section:
    modelled_us = plan.ipu_us_per_batch
    rows = [Row(("modelled for the IPU", microseconds(modelled_us)))]
    notes: list[Part] = []
    if not measured_ms:
        notes.append(Note("measured: no run with these settings", MUTED))
    else:
        measured = measured_ms * 1000
        rows.append(Row(("measured on this machine", microseconds(measured))))
        if modelled_us:
            ratio = measured / modelled_us
            times = f"{ratio:,.{0 if ratio >= 10 else 1}f} times"
            notes.append(Note(f"{times} as long as the modelled IPU", MUTED))
    table = Table((Column(), Column(right=True)), tuple(rows))
    return Section("plan beside measurement, per batch", (table, *notes))


def memory_document(
    plan: Plan, walks: Sequence[MemoryWalk], ipu: int, width: int
) -> Document:
    """Return one IPU over its program, all by category, and the tiles of the one."""
    if not plan.memory:
        return Document("", (Section("", (Note("nothing is modelled", MUTED),)),))
    categories = Section("", (category_table(plan.memory),))
    if not walks:
        return Document("", (categories,))
    walk = walks[ipu]
    keys = "←→ other IPU" if len(walks) > 1 else ""
    title = f"IPU {walk.memory.ipu} over its program"
    over_steps = Section(title, walk_parts(walk, _ALIVE), keys)
    return Document("", (over_steps, categories, _tiles(walk.memory, keys, width)))


def _tiles(memory: IpuMemory, keys: str, width: int) -> Section:
    """Return the tiles of an IPU as shades, fullest first, and what the shades mean."""
    title = f"tiles of IPU {memory.ipu}, fullest first"
    tiles = memory.tile_bytes
    if not tiles:
        return Section(title, (Note("no tiles are modelled", MUTED),), keys)
    capacity = max(1, memory.tile_capacity_bytes)
    across = max(8, min(width, 64))
    per_cell = max(1, -(-len(tiles) // (across * 16)))
    cells = [
        max(tiles[begin : begin + per_cell]) for begin in range(0, len(tiles), per_cell)
    ]
    least, most = min(tiles), max(tiles)
    rows = [
        Line(tuple(_shade(x, least, most, capacity) for x in cells[at : at + across]))
        for at in range(0, len(cells), across)
    ]
    text = (
        f"fullest {byte_size(most)} ({share(most / capacity)}), emptiest "
        f"{byte_size(least)} ({share(least / capacity)}), room {byte_size(capacity)}; "
        f"{_SCALE}"
    )
    if per_cell > 1:
        text += f"; a cell stands for {per_cell} tiles"
    return Section(title, (*rows, Note(text, MUTED)), keys)


def _shade(size: int, least: int, most: int, capacity: int) -> Span:
    """Return a cell: shades go from the emptiest tile to the fullest one."""
    if size > capacity:
        return Span("X", BAD)
    level = round((size - least) / max(1, most - least) * (len(_SHADES) - 1))
    tone = WARN if size > _NEARLY_FULL * capacity else FILLED
    return Span(_SHADES[level], tone)
