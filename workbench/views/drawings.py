"""Charts and timelines as lines of characters."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

from ipu_runtime.reports.document import (
    FILLED,
    MUTED,
    PLAIN,
    Chart,
    Span,
    Timeline,
)
from workbench.views.cells import cell_width, fit, pad, wrapped

LABELS = 10
"""Cells of the labels before an area."""
_EIGHTHS = " ▁▂▃▄▅▆▇█"

Spans = tuple[Span, ...]


def area_rows(
    chart: Chart, width: int, height: int, *, ascii_only: bool = False
) -> list[Spans]:
    """Return an area from the top down, its level shaded below the rest.

    A column stands for some points, by the highest of them; labels tell the highest of
    all and the level.
    """
    totals, level = chart.series[0].ys, chart.series[1].ys[0]
    columns = _columns(totals, width)
    most = max(columns) or 1
    below = round(level / most * height * 8)
    filled = [round(total / most * height * 8) for total in columns]
    shaded = [below - 8 * row >= 4 for row in range(height)]
    edge = height - 1 - max((at for at in range(height) if shaded[at]), default=-1)
    # Where the level is as high as the highest value, that label wins.
    labels = {edge % height: chart.show(level), 0: chart.show(max(totals))}
    rows: list[Spans] = []
    for at, row in enumerate(reversed(range(height))):
        cells = [
            _cell(eighths - 8 * row, below=shaded[row], ascii_only=ascii_only)
            for eighths in filled
        ]
        drawn = (
            Span("".join(text for text, _ in run), tone)
            for tone, run in groupby(cells, key=lambda cell: cell[1])
        )
        label = f"{labels.get(at, ''):>{LABELS - 1}} "
        rows.append((Span(label, MUTED), *drawn))
    marks = pass_marks(chart.marks, len(totals), width)
    return [*rows, (Span(f"{'':{LABELS}}{marks}", MUTED),)]


def level_sign(*, ascii_only: bool) -> str:
    """Return what fills the level of an area."""
    return ":" if ascii_only else "░"


def _cell(eighths: int, *, below: bool, ascii_only: bool) -> tuple[str, str]:
    if below:
        return level_sign(ascii_only=ascii_only), MUTED
    level = min(max(eighths, 0), 8)
    if ascii_only:
        return ("#", FILLED) if level >= 4 else (" ", PLAIN)
    return _EIGHTHS[level], FILLED if level else PLAIN


def _columns(totals: Sequence[float], width: int) -> list[float]:
    """Spread or gather the points over so many columns."""
    count = len(totals)
    bounds = [column * count // width for column in range(width + 1)]
    return [max(totals[begin : max(end, begin + 1)]) for begin, end in pairwise(bounds)]


def pass_marks(marks: Sequence[tuple[int, str]], count: int, width: int) -> str:
    """Return names of what begins at some of `count` points, each below its column."""
    text = ""
    ends = [first for first, _ in marks[1:]] + [count]
    for (first, name), last in zip(marks, ends, strict=True):
        column, end = -(-first * width // count), -(-last * width // count)
        mark = f"|{name}"
        if column >= len(text) and len(mark) <= max(end - column, 2):
            text = text.ljust(column) + mark
    return text[:width]


def timeline_lines(
    timeline: Timeline, width: int, *, ascii_only: bool = False
) -> list[str]:
    """Return who does what in which slot, and what the letters mean.

    What does not fit is left out in the middle, so that both ends stay visible.
    """
    margin = max(cell_width(lane.name) for lane in timeline.lanes) + 1
    gap, bar, idle = ("...", "|", "..") if ascii_only else ("···", "│", "··")
    most = max(width // 3, 4)
    every = range(timeline.slots)
    slots = [*every[:most], *every[-most:]] if len(every) > 2 * most else [*every]
    rows = [_cells(timeline, lane, slots) for lane in range(len(timeline.lanes))]
    widths = [max(2, *map(len, column)) for column in zip(*rows, strict=True)]
    chosen = _both_ends(widths, width - margin - len("||U"), len(gap) + 1)
    lines = [_region_line(timeline, slots, widths, chosen, margin, len(gap))]
    ending = timeline.ending[:1]
    for lane, row in zip(timeline.lanes, rows, strict=True):
        cells = [
            gap if at is None else pad(row[at] or idle, widths[at]) for at in chosen
        ]
        lines.append(f"{pad(lane.name, margin)}{bar}{' '.join(cells)}{bar}{ending}")
    words = [f"{letter} {meaning}" for letter, meaning in timeline.legend]
    words += [timeline.ending] if timeline.ending else []
    legend = f"{', '.join(words)}; the number is the micro-batch"
    return [*lines, *wrapped(legend, width)]


def _cells(timeline: Timeline, lane: int, slots: Sequence[int]) -> list[str]:
    """Return what a lane has in some slots, `F3` or `F1+R0`."""
    labels: dict[int, list[str]] = {slot: [] for slot in slots}
    for task in timeline.lanes[lane].tasks:
        if task.slot in labels:
            labels[task.slot].append(task.label)
    return ["+".join(labels[slot]) for slot in slots]


def _both_ends(widths: Sequence[int], room: int, gap: int) -> list[int | None]:
    """Return the columns that fit, from both ends; None stands for what is left out."""
    count = len(widths)
    if sum(widths) + count - 1 <= room:
        return list(range(count))
    head: list[int | None] = []
    tail: list[int | None] = []
    left, right, used = 0, count - 1, gap
    while left < right:
        taken = left if len(head) <= len(tail) else right
        used += widths[taken] + 1
        if used > room and head:
            break
        if taken == left:
            head.append(taken)
            left += 1
        else:
            tail.insert(0, taken)
            right -= 1
    return [*head, None, *tail]


def _region_line(
    timeline: Timeline,
    slots: Sequence[int],
    widths: Sequence[int],
    chosen: Sequence[int | None],
    margin: int,
    gap: int,
) -> str:
    """Return a line that names the parts of the run above their slots."""

    def titles(at: int | None) -> tuple[str, ...]:
        if at is None:
            return ()
        begun = [names for first, names in timeline.regions if first <= slots[at]]
        return begun[-1] if begun else ()

    text = " " * (margin + 1)
    for names, members in groupby(chosen, key=titles):
        sizes = [gap if at is None else widths[at] for at in members]
        room = sum(sizes) + len(sizes)
        text += fit(next((name for name in names if len(name) < room), ""), room)
    return text.rstrip()
