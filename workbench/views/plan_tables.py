"""Tables of a plan: memory of IPUs, stages and layers."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_runtime.plan.plan import IpuMemory, LayerPlan, Plan
from ipu_runtime.plan.quantities import byte_size, microseconds, share
from workbench.views.cells import bar, cut
from workbench.views.layout import TextStyle
from workbench.views.text_table import table_lines

_MOST_LAYERS = 8


def memory_lines(memory: Sequence[IpuMemory], style: TextStyle) -> list[str]:
    """Return what the memory of a replica's IPUs holds."""
    if not memory:
        return []
    categories = sorted(
        memory[0].by_category, key=lambda name: -max(_part(m, name) for m in memory)
    )
    misfits = any(not item.fits for item in memory)
    rows = []
    for item in memory:
        filled = item.memory_fraction
        drawn = bar(filled, 10, ascii_only=style.ascii_only)
        verdict = "fits" if item.fits else "does not fit"
        rows.append(
            [
                str(item.ipu),
                byte_size(item.used_bytes),
                byte_size(item.capacity_bytes),
                share(filled),
                drawn,
                *([verdict] if misfits else []),
                *(byte_size(_part(item, name)) for name in categories),
            ]
        )
    fixed = [
        "IPU",
        "sum over tiles",
        "of",
        "fullest tile",
        "",
        *([""] if misfits else []),
    ]
    rows, note = _without_middle(rows)
    left = (4, 5) if misfits else (4,)
    # The largest parts are shown, as many as the width has room for.
    for shown in range(len(categories), -1, -1):
        columns = len(fixed) + shown
        lines = table_lines(
            [*fixed, *categories[:shown]], [row[:columns] for row in rows], left
        )
        if max(len(line) for line in lines) <= style.width - 2:
            break
    return ["Memory of a replica's IPUs (modelled)", *(f"  {x}" for x in lines), *note]


def _part(memory: IpuMemory, name: str) -> int:
    return memory.by_category.get(name, 0)


def _without_middle(rows: list[list[str]]) -> tuple[list[list[str]], list[str]]:
    """Leave out the middle of a long table."""
    if len(rows) <= 20:
        return rows, []
    return [*rows[:10], *rows[-6:]], [f"  ... {len(rows) - 16} IPUs left out"]


def stage_lines(plan: Plan, style: TextStyle) -> list[str]:
    """Return the stages of a pipeline with their times."""
    recomputes = any(stage.recompute_us for stage in plan.stages)
    slowest = max(stage.busy_us for stage in plan.stages) or 1.0
    rows = []
    for stage in plan.stages:
        row = [
            str(stage.index),
            str(stage.ipu),
            microseconds(stage.forward_us),
            microseconds(stage.backward_us),
            *([microseconds(stage.recompute_us)] if recomputes else []),
            bar(stage.busy_us / slowest, 8, ascii_only=style.ascii_only),
            str(stage.fifo_depth),
            byte_size(stage.stash_bytes),
        ]
        rows.append(row)
    headings = [
        "stage",
        "IPU",
        "forward",
        "backward",
        *(["recompute"] if recomputes else []),
        "",
        "stash",
        "size",
    ]
    lines = table_lines(headings, rows, left=(headings.index(""),))
    room = max(style.width - len(lines[0]) - 4, 16)
    names = [_layer_names(stage.layers, room, style) for stage in plan.stages]
    lines = [f"{a}  {b}" for a, b in zip(lines, ["layers", *names], strict=True)]
    return [
        f"Stages (modelled, slowest is {plan.stage_imbalance:.2f} times the mean)",
        *(f"  {line}" for line in lines),
    ]


def _layer_names(layers: Sequence[str], room: int, style: TextStyle) -> str:
    if len(layers) == 1:
        return cut(layers[0], room, ascii_only=style.ascii_only)
    text = f"{layers[0]} to {layers[-1]} ({len(layers)})"
    return cut(text, room, ascii_only=style.ascii_only)


def layer_lines(layers: Sequence[LayerPlan], style: TextStyle) -> list[str]:
    """Return the layers that take longest."""

    def time(layer: LayerPlan) -> float:
        return layer.forward_us + layer.backward_us

    total = sum(time(layer) for layer in layers) or 1.0
    chosen = sorted(layers, key=time, reverse=True)[:_MOST_LAYERS]
    rows = [
        [
            cut(layer.name, 28, ascii_only=style.ascii_only),
            layer.kind,
            "x".join(str(extent) for extent in layer.output_shape),
            f"{layer.parameters:,}",
            microseconds(layer.forward_us),
            microseconds(layer.backward_us),
            share(time(layer) / total),
            bar(time(layer) / total, 12, ascii_only=style.ascii_only),
        ]
        for layer in chosen
    ]
    headings = [
        "layer",
        "kind",
        "output",
        "weights",
        "forward",
        "backward",
        "share",
        "",
    ]
    found = f"{len(chosen)} slowest of {len(layers)} layers"
    if len(chosen) == len(layers):
        found = "Layers"
    return [
        f"{found} (modelled)",
        *(f"  {line}" for line in table_lines(headings, rows, left=(0, 1, 7))),
    ]
