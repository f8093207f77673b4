"""Memory over the steps of a program as an area of characters, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from textwrap import wrap

from ipu_runtime.plan.memory.memory_walk import MemoryWalk, WalkStep
from ipu_runtime.plan.quantities import byte_size
from ipu_runtime.reports.memory_words import (
    alive_rows,
    always_words,
    fullest_walk,
    peak_sentence,
)
from workbench.views.cells import cut
from workbench.views.layout import TextStyle
from workbench.views.text_table import table_lines

ALWAYS, REST, NOTHING = "always", "rest", ""
"""What a cell of the chart is filled with."""
HEIGHT = 10
LABELS = 10
"""Cells of the labels before the area."""
_EIGHTHS = " ▁▂▃▄▅▆▇█"

Cells = list[tuple[str, str]]
"""A row of the chart: pieces of text, each with what fills it."""


def area_rows(
    walk: MemoryWalk, width: int, height: int, *, ascii_only: bool = False
) -> list[Cells]:
    """Return the area from the top down: what is always live below the rest.

    A column stands for some steps, by the fullest of them.
    """
    totals = _columns(walk.totals, width)
    most = max(totals) or 1
    always = round(walk.memory.always_live_bytes / most * height * 8)
    filled = [round(total / most * height * 8) for total in totals]
    rows = []
    for row in reversed(range(height)):
        below = always - 8 * row >= 4
        cells = [
            _cell(eighths - 8 * row, below=below, ascii_only=ascii_only)
            for eighths in filled
        ]
        rows.append(
            [
                ("".join(text for text, _ in run), kind)
                for kind, run in groupby(cells, key=lambda cell: cell[1])
            ]
        )
    return rows


def labelled_rows(
    walk: MemoryWalk, width: int, height: int, *, ascii_only: bool = False
) -> list[tuple[str, Cells]]:
    """Return the area's rows, each after its label: the peak, and what always is."""
    rows = area_rows(walk, width, height, ascii_only=ascii_only)
    edge = next((at for at, row in enumerate(rows) if row[0][1] == ALWAYS), 0)
    sizes = {edge: walk.memory.always_live_bytes, 0: max(walk.totals)}
    labels = {at: byte_size(size) for at, size in sizes.items()}
    return [
        (f"{labels.get(at, ''):>{LABELS - 1}} ", row) for at, row in enumerate(rows)
    ]


def _cell(eighths: int, *, below: bool, ascii_only: bool) -> tuple[str, str]:
    if below:
        return (":" if ascii_only else "░"), ALWAYS
    level = min(max(eighths, 0), 8)
    if ascii_only:
        return ("#", REST) if level >= 4 else (" ", NOTHING)
    return _EIGHTHS[level], REST if level else NOTHING


def _columns(totals: Sequence[int], width: int) -> list[int]:
    """Spread or gather the steps over so many columns."""
    count = len(totals)
    bounds = [column * count // width for column in range(width + 1)]
    return [max(totals[begin : max(end, begin + 1)]) for begin, end in pairwise(bounds)]


def pass_marks(steps: Sequence[WalkStep], width: int) -> str:
    """Return the names of the passes, each under its first column."""
    text, count, at = "", len(steps), 0
    several = len({step.stage for step in steps if step.layer}) > 1
    for name, run in groupby(steps, key=lambda step: _pass_name(step, several)):
        column = -(-at * width // count)
        at += len(list(run))
        end = -(-at * width // count)
        mark = f"|{name}"
        if column >= len(text) and len(mark) <= max(end - column, 2):
            text = text.ljust(column) + mark
    return text[:width]


def _pass_name(step: WalkStep, several: bool) -> str:
    name = "backward" if step.name == "recomputation" else step.name
    return f"{name} {step.stage}" if several and name != "update" else name


def walk_lines(walks: Sequence[MemoryWalk], style: TextStyle) -> list[str]:
    """Return the walk of the fullest IPU as text."""
    if not walks:
        return []
    walk = fullest_walk(walks)
    others = f", fullest of {len(walks)}" if len(walks) > 1 else ""
    heading = (
        f"Memory over the program of IPU {walk.memory.ipu}{others} (modelled, sum "
        "over tiles)"
    )
    width = max(style.width - 2 - LABELS, 20)
    lines = [heading]
    for label, row in labelled_rows(walk, width, HEIGHT, ascii_only=style.ascii_only):
        drawn = "".join(text for text, _ in row)
        lines.append(f"  {label}{drawn}".rstrip())
    lines.append(f"  {'':{LABELS}}{pass_marks(walk.steps, width)}")
    sign = ":" if style.ascii_only else "░"
    for words in (peak_sentence(walk), f"{sign} always live: {always_words(walk)}"):
        lines += [f"  {row}" for row in wrap(words, style.width - 2)]
    table = [
        (cut(name, 32, ascii_only=style.ascii_only), kind, size)
        for name, kind, size in alive_rows(walk)
    ]
    found = table_lines(["alive there, besides", "as", "bytes"], table, left=(0, 1))
    return [*lines, *(f"  {row}" for row in found)]
