"""The layers of the model in order, large models folded by blocks."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from workbench.editing.layer_groups import LayerGroup, layer_groups
from workbench.ui.content.layer_rows import (
    LayerSpan,
    ShownLayers,
    all_blocks,
    cut_row,
    heading,
    minimap,
    span_names,
    span_row,
    visible_spans,
)
from workbench.ui.widgets.row_list import Row, RowList, cursor_bindings
from workbench.views.content import lines

_FOLDED_FROM = 40
"""Models of so many layers are folded at first, and have a map."""


class LayerTable(RowList, inherit_bindings=False):
    """One line per layer or block, a rule where the model is cut."""

    # `k` compares schedules here, so it does not move the cursor.
    BINDINGS: ClassVar[list[BindingType]] = cursor_bindings(letters=False)

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._names: tuple[str, ...] = ()
        self._folded: set[str] = set()
        self._spans: dict[str, LayerSpan] = {}
        self._shown: ShownLayers | None = None

    def show_layers(self, shown: ShownLayers) -> None:
        """Show the layers of a draft; a model seen for the first time is folded."""
        names = tuple(layer.name for layer in shown.layers)
        groups = layer_groups(names)
        if names != self._names:
            self._names = names
            self._folded = all_blocks(groups) if len(names) >= _FOLDED_FROM else set()
        width = self.scrollable_content_region.width
        whole = LayerGroup("", 0, len(names) - 1)
        spans = visible_spans(shown.layers, groups, self._folded, whole)
        rows: list[Row] = []
        above = None
        for span, name in zip(spans, span_names(spans, width), strict=True):
            before = span.first - 1
            cut = before >= 0 and shown.stages[before] != shown.stages[span.first]
            # The head of an open block has the cut above it, not its first layer.
            if cut and not (above and above.first == span.first):
                rows.append(Row(cut_row(before, shown, width)))
            rows.append(Row(span_row(span, name, shown), span.key))
            above = span
        self._spans = {span.key: span for span in spans}
        self._shown = shown
        self.set_rows(rows)

    @property
    def span(self) -> LayerSpan | None:
        """The layer or block under the cursor."""
        return self._spans.get(self.cursor_key)

    @property
    def has_blocks(self) -> bool:
        """Whether something can be folded or unfolded."""
        return any(span.is_block for span in self._spans.values())

    @property
    def stage(self) -> int:
        """The stage of the layer or block under the cursor."""
        span, shown = self.span, self._shown
        return shown.stages[span.first] if span is not None and shown else 0

    @property
    def places(self) -> list[int]:
        """First layers of all lines: where a cut may go."""
        return sorted({span.first for span in self._spans.values()})

    def toggle_fold(self) -> bool:
        """Fold or unfold the block at the cursor; tell whether there is one."""
        here = self.span
        if here is None:
            return False
        around = [
            span
            for span in self._spans.values()
            if span.is_block and span.first <= here.first and here.last <= span.last
        ]
        if not around:
            return False
        block = here if here.is_block else around[-1]
        self._folded ^= {block.key}
        self.cursor_key = block.key
        return True

    def heading(self) -> Content:
        """Return the line above the columns, and the map of a large model."""
        width = self.scrollable_content_region.width
        span, shown = self.span, self._shown
        if shown is None or span is None or len(shown.layers) < _FOLDED_FROM:
            return heading(width)
        return lines(minimap(shown.stages, span, width), heading(width))
