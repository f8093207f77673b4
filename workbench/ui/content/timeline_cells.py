"""A timeline as lines of cells, and where each task is in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from textual.content import Content, Span

from ipu_runtime.plan.schedule.repeated import Repeated
from ipu_runtime.plan.schedule.schedule import Phase
from ipu_runtime.plan.schedule.timeline import Interval, Timeline
from ipu_runtime.reports.document import MUTED
from workbench.planning.timeline_reading import task_label
from workbench.views.content import StyledPart, line

PHASE_STYLES: dict[Phase, str] = {
    Phase.FORWARD: "$phase-forward",
    Phase.BACKWARD: "$phase-backward",
    Phase.RECOMPUTE: "$phase-recompute",
    Phase.WEIGHT_GRADIENT: "$phase-weights",
}
LABEL = 7
"""Cells of the IPU's name at the left."""
_MOST_SLOTS = 500
"""At either end of a run; what is between is left out."""
_UPDATE_STYLE = "$phase-update"
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Cell:
    """One task and the cells that it takes in its line."""

    task: Interval
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """Lines below each other, the ruler first, and the tasks of each IPU's line."""

    lines: tuple[Content, ...] = ()
    ipus: tuple[int, ...] = ()
    cells: tuple[tuple[Cell, ...], ...] = ()


def draw_slots(timeline: Timeline, width: int, muted: bool) -> Drawing:
    """Draw cells of one width, wide enough for every label; width 1 has letters."""
    shown = _both_ends(timeline.schedule.slots)
    tasks = [list(timeline.intervals(ipu, shown)) for ipu in timeline.ipus]
    if width > 1:
        longest = max(len(task_label(timeline, task)) for row in tasks for task in row)
        width = max(width, longest + 1)
    starts, columns, gap = _columns(tasks)
    wait = ("··" if width > 2 else "·").ljust(width)
    empty = "".join("…" * width if at == gap else wait for at in range(columns))
    cells = tuple(tuple(_slot_cells(row, starts, width)) for row in tasks)
    ruler = _ruler(starts, columns, width)
    return _drawing(timeline, cells, ruler, empty, muted, gap=width > 1)


def _both_ends(slots: Repeated[Any]) -> Sequence[int]:
    """Return the repetitions at both ends of a long run: what is between is alike."""
    every = range(slots.times)
    ends = max(1, _MOST_SLOTS // max(slots.length, 1))
    return [*every[:ends], *every[-ends:]] if 2 * ends < slots.times else every


def _columns(tasks: list[list[Interval]]) -> tuple[dict[int, int], int, int]:
    """Return the first column of every slot, their number, and which is left out."""
    counts: Counter[int] = Counter()
    for row in tasks:
        counts |= Counter(task.slot for task in row)
    starts: dict[int, int] = {}
    column, gap, after = 0, -1, 0
    for slot in sorted(counts):
        if slot > after:
            gap, column = column, column + 1
        starts[slot] = column
        column, after = column + counts[slot], slot + 1
    return starts, column, gap


def _slot_cells(
    row: list[Interval], starts: Mapping[int, int], width: int
) -> list[Cell]:
    seen: Counter[int] = Counter()
    cells = []
    for task in row:
        cells.append(_slot_cell(task, starts[task.slot] + seen[task.slot], width))
        seen[task.slot] += 1
    return sorted(cells, key=lambda cell: cell.start)


def _slot_cell(task: Interval, column: int, width: int) -> Cell:
    return Cell(task, LABEL + column * width, LABEL + (column + 1) * width)


def draw_time(timeline: Timeline, columns: int, muted: bool) -> Drawing:
    """Draw cells as wide as the time they take."""
    per_column = timeline.total_us / columns
    rows = []
    # Of a long run, as many repetitions as leave no column empty.
    times = timeline.schedule.slots.times
    drawn = range(0, times, max(1, times // (4 * columns)))
    for ipu in timeline.ipus:
        tasks = list(timeline.intervals(ipu, drawn))
        begins = [min(columns - 1, int(task.start_us / per_column)) for task in tasks]
        row = []
        for task, begin, after in zip(
            tasks, begins, [*begins[1:], columns], strict=True
        ):
            end = min(round(task.end_us / per_column), max(after, begin + 1))
            row.append(Cell(task, LABEL + begin, LABEL + max(begin + 1, end)))
        rows.append(tuple(row))
    ruler = _time_ruler(timeline.total_us, columns)
    return _drawing(timeline, tuple(rows), ruler, "·" * columns, muted, gap=False)


def _drawing(
    timeline: Timeline,
    cells: tuple[tuple[Cell, ...], ...],
    ruler: str,
    empty: str,
    muted: bool,
    gap: bool,
) -> Drawing:
    """Put the tasks on lines of waiting cells; a label without room is its letter."""
    rows = [line((ruler, MUTED))]
    for ipu, row in zip(timeline.ipus, cells, strict=True):
        parts: list[StyledPart] = [(f"IPU{ipu}".ljust(LABEL - 1) + "│", MUTED)]
        place = LABEL
        for cell in row:
            if cell.start > place:
                parts.append((empty[place - LABEL : cell.start - LABEL], MUTED))
            room = cell.end - max(cell.start, place)
            style = MUTED if muted else PHASE_STYLES[cell.task.phase]
            parts.append((_cell_text(timeline, cell.task, room, gap), style))
            place = max(place, cell.end)
        parts.append((empty[place - LABEL :] + "│", MUTED))
        rows.append(line(*parts, ("U", MUTED if muted else _UPDATE_STYLE)))
    return Drawing(tuple(rows), timeline.ipus, cells)


def _cell_text(timeline: Timeline, task: Interval, width: int, gap: bool) -> str:
    label = task_label(timeline, task)
    if len(label) > width - gap:
        label = task.phase.value
    return label.ljust(width, " " if gap else "-")[: max(width, 0)]


def without_cut_labels(
    drawing: Drawing, number: int, content: Content, window: tuple[int, int]
) -> Content:
    """Return a line whose labels at the edges of the window do not read as others.

    `F12` that is cut after two signs would be `F1`.
    """
    left, right = window
    if number == 0:
        spaces = [(m.start(), m.end(), " ") for m in _NUMBER.finditer(content.plain)]
    else:
        spaces = [
            (cell.start, cell.end, cell.task.phase.value)
            for cell in drawing.cells[number - 1]
        ]
    for start, end, letter in spaces:
        low, high = max(start, left), min(end, right)
        label = content.plain[start:end].rstrip()
        if low >= high or (low == start and start + len(label) <= high):
            continue
        fill = " " if number == 0 else "…"
        seen = (letter if low == start else fill).ljust(high - low, fill)
        spans = [Span(0, len(seen), s.style) for s in content[low : low + 1].spans]
        content = content[:low] + Content(seen, spans) + content[high:]
    return content


def _ruler(starts: Mapping[int, int], columns: int, width: int) -> str:
    marks = [" "] * (columns * width + 8)
    every = 5 if width > 1 else 10
    for slot, column in starts.items():
        if slot % every == 0:
            text = str(slot)
            marks[column * width : column * width + len(text)] = text
    return "slot".ljust(LABEL) + "".join(marks).rstrip()


def _time_ruler(total_us: float, columns: int) -> str:
    marks = [" "] * (columns + 10)
    for place in range(0, columns, 20):
        text = f"{total_us * place / columns:.0f}"
        marks[place : place + len(text)] = text
    return "us".ljust(LABEL) + "".join(marks).rstrip()
