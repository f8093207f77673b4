"""The report's parts: time of a step, memory by category, tiles, measured figures."""

from __future__ import annotations

from textual.content import Content

from ipu_runtime.plan.memory.memory_walk import MemoryWalk
from ipu_runtime.plan.plan import IpuMemory, Plan
from ipu_runtime.plan.quantities import byte_size, count, microseconds, plural, share
from ipu_runtime.plan.step_parts import step_words
from ipu_runtime.reports.document import BAD, GOOD, HEADING, MUTED, WARN
from ipu_runtime.reports.memory_words import alive_rows, always_words, peak_sentence
from ipu_runtime.reports.plan_words import instance_sentence
from workbench.ui.content.plan_summary import time_parts
from workbench.views.cells import bar, fit, wrapped
from workbench.views.content import StyledPart, line
from workbench.views.memory_chart import (
    ALWAYS,
    LABELS,
    NOTHING,
    REST,
    labelled_rows,
    pass_marks,
)

_SHADES = "░▒▓█"
_SCALE = "from ░ the emptiest to █ the fullest tile, X too full"
_LAYERS = 12
_CHART_ROWS, _ALIVE = 6, 4
_AREA_STYLES = {ALWAYS: MUTED, REST: "$primary", NOTHING: ""}
_NEARLY_FULL = 0.75


def step_parts(plan: Plan, width: int) -> list[Content]:
    """Return the parts of a step and their sum."""
    if plan.step is None:
        return []
    rows = [
        line(
            ("per batch ", "bold"),
            f"{microseconds(plan.ipu_us_per_batch)}   ",
            ("samples/s ", "bold"),
            count(plan.samples_per_second),
        ),
        *time_parts(plan.step, width),
    ]
    total = microseconds(plan.step.total_us)
    rows.append(line((fit("step", 9), "bold"), f"{total:>{max(0, width - 9)}}"))
    for text in (f"in a step {step_words(plan.replicas)}", instance_sentence(plan)):
        rows += [line((row, MUTED)) for row in wrapped(text, width) if row]
    return [*rows, line("")]


def measured_beside_modelled(plan: Plan, measured_ms: float | None) -> list[Content]:
    """Return the plan's time per batch beside what a run of the same took here."""
    modelled_us = plan.ipu_us_per_batch
    rows = [line(("plan beside measurement, per batch", HEADING))]
    rows.append(line("modelled for the IPU   ", f"{microseconds(modelled_us):>10}"))
    if not measured_ms:
        text = "measured: no run with these settings"
        return [*rows, line((text, MUTED)), line("")]
    measured = measured_ms * 1000
    rows.append(line("measured on this machine", f"{microseconds(measured):>9}"))
    if modelled_us:
        ratio = measured / modelled_us
        text = f"{ratio:,.{0 if ratio >= 10 else 1}f} times as long as the modelled IPU"
        rows.append(line((text, MUTED)))
    return [*rows, line("")]


def layer_times(plan: Plan, width: int) -> list[Content]:
    """Return the layers that take most time."""
    total = sum(layer.forward_us + layer.backward_us for layer in plan.layers)
    ordered = sorted(
        plan.layers, key=lambda item: -(item.forward_us + item.backward_us)
    )
    space = max(4, width - 18 - 5 - 10)
    rows = [line(("layers with the most time", HEADING))]
    for layer in ordered[:_LAYERS]:
        time = layer.forward_us + layer.backward_us
        if not time or not total:
            continue
        rows.append(
            line(
                fit(layer.name, 18),
                (bar(time / total, space), "$primary"),
                f"{share(time / total):>5}",
                (f"{microseconds(time):>10}", MUTED),
            )
        )
    return rows


def memory_over_steps(
    walk: MemoryWalk, count: int, width: int, *, ascii_only: bool
) -> list[Content]:
    """Return an IPU's memory over the steps of its program, and what fills it most."""
    keys = "  ←→ other IPU" if count > 1 else ""
    title = f"IPU {walk.memory.ipu} over its program"
    rows = [line((title, HEADING), (keys, MUTED))]
    across = max(8, width - LABELS)
    area = labelled_rows(walk, across, _CHART_ROWS, ascii_only=ascii_only)
    for label, cells in area:
        parts: list[StyledPart] = [(text, _AREA_STYLES[kind]) for text, kind in cells]
        rows.append(line((label, MUTED), *parts))
    rows.append(line((f"{'':{LABELS}}{pass_marks(walk.steps, across)}", MUTED)))
    shade = ":" if ascii_only else "░"
    for text in (peak_sentence(walk), f"{shade} always live: {always_words(walk)}"):
        rows += [line(row) for row in wrapped(text, width)]
    rows.append(line(("alive there, besides", MUTED)))
    space = max(8, width - 18 - 11)
    for name, kind, size in alive_rows(walk, _ALIVE):
        named = f"{fit(name, space - 1)} "
        rows.append(line(named, (fit(kind, 18), MUTED), f"{size:>11}"))
    return [*rows, line("")]


def memory_table(plan: Plan, width: int) -> list[Content]:
    """Return bytes by category, one column per IPU as far as there is room."""
    shown = plan.memory[: max(1, (width - 14) // 11)]
    if not shown:
        return [line(("nothing is modelled", MUTED))]
    heading = "".join(f"{f'IPU {item.ipu}':>11}" for item in shown)
    rows = [line((f"{'':<14}{heading}", MUTED))]
    for category in shown[0].by_category:
        sizes = [item.by_category.get(category, 0) for item in shown]
        cells = "".join(f"{byte_size(size):>11}" for size in sizes)
        rows.append(line(f"{fit(category, 14)}{cells}"))
    used = "".join(f"{byte_size(item.used_bytes):>11}" for item in shown)
    rows.append(line((f"{'sum over tiles':<14}{used}", "bold")))
    room = "".join(f"{byte_size(item.capacity_bytes):>11}" for item in shown)
    rows.append(line((f"{'capacity':<14}{room}", MUTED)))
    parts: list[StyledPart] = [fit("fullest tile", 14)]
    for item in shown:
        parts.append((f"{share(item.memory_fraction):>11}", GOOD if item.fits else BAD))
    rows.append(line(*parts))
    if len(plan.memory) > len(shown):
        rows.append(
            line((f"and {plural(len(plan.memory) - len(shown), 'IPU')} more", MUTED))
        )
    return [*rows, line("")]


def tile_view(memory: IpuMemory, count: int, width: int) -> list[Content]:
    """Return the tiles of an IPU as shades, fullest first, and what the shades mean."""
    tiles = memory.tile_bytes
    keys = "  ←→ other IPU" if count > 1 else ""
    rows = [line((f"tiles of IPU {memory.ipu}, fullest first", HEADING), (keys, MUTED))]
    if not tiles:
        return [*rows, line(("no tiles are modelled", MUTED))]
    capacity = max(1, memory.tile_capacity_bytes)
    across = max(8, min(width, 64))
    per_cell = max(1, -(-len(tiles) // (across * 16)))
    cells = [
        max(tiles[begin : begin + per_cell]) for begin in range(0, len(tiles), per_cell)
    ]
    least, most = min(tiles), max(tiles)
    for begin in range(0, len(cells), across):
        parts: list[StyledPart] = [
            _shade(cell, least, most, capacity)
            for cell in cells[begin : begin + across]
        ]
        rows.append(line(*parts).simplify())
    text = (
        f"fullest {byte_size(most)} ({share(most / capacity)}), emptiest "
        f"{byte_size(least)} ({share(least / capacity)}), room {byte_size(capacity)}; "
        f"{_SCALE}"
    )
    if per_cell > 1:
        text += f"; a cell stands for {per_cell} tiles"
    return [*rows, *(line((row, MUTED)) for row in wrapped(text, width))]


def _shade(size: int, least: int, most: int, capacity: int) -> tuple[str, str]:
    """Return a cell: shades go from the emptiest tile to the fullest one."""
    if size > capacity:
        return "X", BAD
    level = round((size - least) / max(1, most - least) * (len(_SHADES) - 1))
    return _SHADES[level], WARN if size > _NEARLY_FULL * capacity else "$primary"
