"""Layers and blocks as lines: what each costs and in which stage it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from textual.content import Content

from ipu_runtime.plan.model.model_spec import Layer
from ipu_runtime.plan.plan import LayerPlan
from ipu_runtime.plan.quantities import byte_size, plural
from ipu_runtime.reports.document import MARK, MUTED
from workbench.editing.layer_groups import LayerGroup
from workbench.views.cells import fit, fit_apart
from workbench.views.content import StyledPart, line

_STAGE_STYLES = ("$primary", "$accent", "$success", "$secondary")


@dataclass(frozen=True, slots=True)
class ShownLayers:
    """The layers of a draft with its stages, and figures as far as they are known."""

    layers: tuple[Layer, ...]
    stages: tuple[int, ...]
    figures: Mapping[str, LayerPlan]
    """Of the last plan that could run, by the layer's name."""
    locked: Collection[str]
    muted: bool
    """Whether the figures are not those of the present values."""


@dataclass(frozen=True, slots=True)
class LayerSpan:
    """One line of the table: a layer, or a block that is folded or not."""

    key: str
    name: str
    first: int
    last: int
    depth: int = 0
    is_block: bool = False
    folded: bool = False
    block: str = ""
    """Name of the block around it, which its line need not repeat."""


def stage_style(stage: int) -> str:
    """Return the colour of a stage."""
    return _STAGE_STYLES[stage % len(_STAGE_STYLES)]


def visible_spans(
    layers: Sequence[Layer],
    groups: Sequence[LayerGroup],
    folded: Collection[str],
    around: LayerGroup,
    depth: int = 0,
) -> list[LayerSpan]:
    """Return what is seen of a block: its layers, and the blocks inside it."""
    spans: list[LayerSpan] = []
    first = around.first

    def add_layers(end: int) -> None:
        for index in range(first, end):
            name = layers[index].name
            span = LayerSpan(name, name, index, index, depth, block=around.name)
            spans.append(span)

    for group in groups:
        add_layers(group.first)
        key = block_key(group)
        spans.append(
            LayerSpan(
                key,
                group.name,
                group.first,
                group.last,
                depth,
                is_block=True,
                folded=key in folded,
                block=around.name,
            )
        )
        if key not in folded:
            spans += visible_spans(layers, group.inner, folded, group, depth + 1)
        first = group.last + 1
    add_layers(around.last + 1)
    return spans


def block_key(group: LayerGroup) -> str:
    """Return a key that no layer's name can be."""
    return f"\n{group.first} {group.last}"


def all_blocks(groups: Sequence[LayerGroup]) -> set[str]:
    """Return the keys of all blocks, those inside others too."""
    inner = (all_blocks(group.inner) for group in groups)
    return {block_key(group) for group in groups}.union(*inner)


def name_width(width: int) -> int:
    """Return the cells for names in a table of some width."""
    return min(max(width - 63, 10), 30)


def heading(width: int) -> Content:
    """Return the line above the columns."""
    text = (
        f"  {fit('layer', name_width(width))} {fit('kind', 12)}{'output':>10}"
        f"{'params':>8}{'fwd us':>7}{'bwd us':>8}{'memory':>9} stage"
    )
    return line((fit(text, width), MUTED))


def span_names(spans: Sequence[LayerSpan], width: int) -> list[str]:
    """Return the names of lines, cut so that different ones stay different."""
    return fit_apart([_label(span) for span in spans], name_width(width))


def _label(span: LayerSpan) -> str:
    sign = ("▸ " if span.folded else "▾ ") if span.is_block else ""
    short = span.name.removeprefix(span.block).lstrip("_/.") or span.name
    return "  " * span.depth + sign + short


def span_row(span: LayerSpan, name: str, shown: ShownLayers) -> Content:
    """Return the line of a layer or block; sums where it is a block."""
    layers = shown.layers[span.first : span.last + 1]
    known = [shown.figures[item.name] for item in layers if item.name in shown.figures]
    kind = plural(len(layers), "layer") if span.is_block else layers[0].kind
    shape = "x".join(str(extent) for extent in layers[-1].output_shape)
    cells = (
        f"{name} {fit(kind, 12)}{fit(shape, 10, True)}"
        f"{_short_count(sum(item.parameters for item in layers)):>8}"
    )
    figures = f"{'-':>7}{'-':>8}{'-':>9}"
    if len(known) == len(layers):
        figures = (
            f"{sum(item.forward_us for item in known):>7.1f}"
            f"{sum(item.backward_us for item in known):>8.1f}"
            f"{byte_size(sum(item.memory_bytes for item in known)):>9}"
        )
    locked = all(item.name in shown.locked for item in layers)
    first, last = shown.stages[span.first], shown.stages[span.last]
    stage = str(first) if first == last else f"{first}-{last}"
    return line(
        ("L ", MARK) if locked else "  ",
        cells,
        (figures, MUTED if shown.muted else ""),
        (f" ▌{stage:<3}", stage_style(last)),
    )


def cut_row(index: int, shown: ShownLayers, width: int) -> Content:
    """Return the rule between a layer and the one after it."""
    before = shown.figures.get(shown.layers[index].name)
    size = f": {byte_size(before.crossing_bytes)} per micro-batch" if before else ""
    text = f" cut{size} "
    dashes = max(4, width - len(text) - 6)
    return line((f"  {'─' * dashes}{text}──", MUTED))


def minimap(stages: Sequence[int], span: LayerSpan, width: int) -> Content:
    """Return the whole model in one line: stages as long as their layers, and where."""
    count, room = len(stages), max(width - 10, 8)
    of_cell = [stages[cell * count // room] for cell in range(room)]
    parts: list[StyledPart] = [("  model ", MUTED)]
    for cell, stage in enumerate(of_cell):
        start = next(i for i, other in enumerate(of_cell) if other == stage)
        text = str(stage).ljust(room, "━")[cell - start]
        if of_cell.count(stage) < len(str(stage)):
            text = "━"
        here = span.first <= cell * count // room <= span.last
        here = here or cell == span.first * room // count
        parts.append(("●" if here else text, stage_style(stage)))
    return line(*parts)


def _short_count(value: int) -> str:
    return f"{value:,}" if value < 1_000_000 else f"{value / 1e6:,.1f}M"
