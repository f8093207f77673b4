"""Memory of a plan: of its IPUs, by category, and over the steps of the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ipu_runtime.plan.quantities import byte_size, share
from ipu_runtime.reports.document import (
    BAD,
    FILLED,
    GOOD,
    MUTED,
    STRONG,
    Bar,
    Chart,
    Column,
    Part,
    Row,
    Section,
    Series,
    Span,
    StackedBars,
    StackedRow,
    Table,
)
from ipu_runtime.reports.plan_words import always_words, fullest_walk, peak_sentence

if TYPE_CHECKING:
    from ipu_runtime.plan.memory.memory_walk import MemoryWalk
    from ipu_runtime.plan.plan import IpuMemory

_MOST_ROWS = 16
_MOST_ALIVE = 8


def memory_section(memory: Sequence[IpuMemory]) -> Section:
    """Return what the memory of a replica's IPUs holds."""
    if not memory:
        return Section("", ())
    # The largest parts are shown, as many as the width has room for.
    categories = sorted(
        memory[0].by_category, key=lambda name: -max(_part(m, name) for m in memory)
    )
    misfits = any(not item.fits for item in memory)
    rows = []
    for item in memory:
        tone = FILLED if item.fits else BAD
        verdict = Span("" if item.fits else "does not fit", BAD)
        cells = (
            str(item.ipu),
            byte_size(item.used_bytes),
            byte_size(item.capacity_bytes),
            Span(share(item.memory_fraction), "" if item.fits else BAD),
            Bar(item.memory_fraction, tone),
            *((verdict,) if misfits else ()),
            *(byte_size(_part(item, name)) for name in categories),
        )
        rows.append(Row(cells))
    columns = (
        Column("IPU", right=True),
        Column("sum over tiles", right=True),
        Column("of", right=True, rank=1),
        Column("fullest tile", right=True),
        Column(bar=(4, 10)),
        *((Column(),) if misfits else ()),
        *(Column(x, right=True, rank=at) for at, x in enumerate(categories, 2)),
    )
    table = Table(columns, tuple(rows), most=_MOST_ROWS, noun="IPU")
    bars = StackedBars(
        tuple(
            StackedRow(
                f"IPU {item.ipu}",
                {name: float(size) for name, size in item.by_category.items() if size},
                float(item.capacity_bytes),
            )
            for item in memory
        ),
        byte_size,
        "Sum over the tiles of each IPU by category; the dashed line is its capacity.",
        2.0**20,
    )
    return Section("Memory of a replica's IPUs", (bars, table), "modelled")


def _part(memory: IpuMemory, name: str) -> int:
    return memory.by_category.get(name, 0)


def category_table(memory: Sequence[IpuMemory]) -> Table:
    """Return bytes by category, a column for each IPU as far as there is room."""
    columns = (
        Column(),
        *(
            Column(f"IPU {item.ipu}", right=True, rank=at)
            for at, item in enumerate(memory)
        ),
    )
    rows = [
        Row((name, *(byte_size(_part(item, name)) for item in memory)))
        for name in memory[0].by_category
    ]
    used = (byte_size(item.used_bytes) for item in memory)
    room = (byte_size(item.capacity_bytes) for item in memory)
    full = (
        Span(share(item.memory_fraction), GOOD if item.fits else BAD) for item in memory
    )
    rows += [
        Row(("sum over tiles", *used), STRONG),
        Row(("capacity", *room), MUTED),
        Row(("fullest tile", *full)),
    ]
    return Table(columns, tuple(rows))


def walk_section(walks: Sequence[MemoryWalk]) -> Section:
    """Return the memory of the fullest IPU over the steps of its program."""
    if not walks:
        return Section("", ())
    walk = fullest_walk(walks)
    others = f", fullest of {len(walks)}" if len(walks) > 1 else ""
    title = f"Memory over the program of IPU {walk.memory.ipu}{others}"
    return Section(title, walk_parts(walk), "modelled, sum over tiles")


def walk_parts(walk: MemoryWalk, most: int = _MOST_ALIVE) -> tuple[Part, ...]:
    """Return an IPU's memory over its program, and what is alive at the peak."""
    xs = tuple(float(at + 1) for at in range(len(walk.steps)))
    always = float(walk.memory.always_live_bytes)
    where = tuple(f"{step.name} {step.layer}".strip() for step in walk.steps)
    series = (
        Series("in use", xs, tuple(map(float, walk.totals)), filled=True, hints=where),
        Series("always live", xs, (always,) * len(xs), 7, filled=True),
    )
    chart = Chart(
        "sum over tiles",
        "program step",
        series,
        peak_sentence(walk),
        zero=True,
        show=byte_size,
        tick_unit=2.0**20,
        marks=_passes(walk),
        level_reading=f"always live: {always_words(walk)}",
    )
    rows = [(item.name, item.kind, byte_size(item.size)) for item in walk.alive[:most]]
    if left := walk.alive[most:]:
        rows.append((f"{len(left)} more", "", byte_size(sum(x.size for x in left))))
    columns = (
        Column("alive there, besides", least=16),
        Column("as"),
        Column("bytes", right=True),
    )
    return chart, Table(columns, tuple(map(Row, rows)))


def _passes(walk: MemoryWalk) -> tuple[tuple[int, str], ...]:
    """Return the first steps of the passes, each with its name."""
    several = len({step.stage for step in walk.steps if step.layer}) > 1
    marks: list[tuple[int, str]] = []
    for at, step in enumerate(walk.steps):
        name = "backward" if step.name == "recomputation" else step.name
        name = f"{name} {step.stage}" if several and name != "update" else name
        if not marks or marks[-1][1] != name:
            marks.append((at, name))
    return tuple(marks)
