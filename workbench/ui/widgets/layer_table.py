"""The layers of the model in order, with what each costs and where it runs."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from ipu_runtime.plan.plan import LayerPlan, Plan
from workbench.core.quantities import byte_size
from workbench.ui.content.pieces import MARK, MUTED, fit, line
from workbench.ui.widgets.row_list import Row, RowList, cursor_bindings

_STAGE_STYLES = ("$primary", "$accent", "$success", "$secondary")


class LayerTable(RowList, inherit_bindings=False):
    """One line per layer, a rule where the model is cut."""

    # `k` compares schedules here, so it does not move the cursor.
    BINDINGS: ClassVar[list[BindingType]] = cursor_bindings(letters=False)

    def show_plan(self, plan: Plan, locked: Collection[str], valid: bool) -> None:
        """Show the layers of a plan; muted while the experiment is wrong."""
        width = self.scrollable_content_region.width
        name_width = _name_width(width)
        rows: list[Row] = []
        for index, layer in enumerate(plan.layers):
            before = plan.layers[index - 1] if index else None
            if before is not None and before.stage != layer.stage:
                rows.append(Row(_cut(before, plan, width)))
            rows.append(
                Row(_layer(layer, layer.name in locked, name_width, valid), layer.name)
            )
        self.set_rows(rows)

    @property
    def index(self) -> int:
        """Number of the layer under the cursor."""
        return self.keys.index(self.cursor_key) if self.cursor_key in self.keys else 0


def _name_width(width: int) -> int:
    return min(max(width - 63, 10), 30)


def heading(width: int) -> Content:
    """Return the line above the columns."""
    name_width = _name_width(width)
    text = (
        f"  {fit('layer', name_width)} {fit('kind', 12)}{'output':>10}{'params':>8}"
        f"{'fwd us':>7}{'bwd us':>8}{'memory':>9} stage"
    )
    return line((fit(text, width), MUTED))


def _layer(layer: LayerPlan, locked: bool, name_width: int, valid: bool) -> Content:
    shape = "x".join(str(extent) for extent in layer.output_shape)
    text = (
        f"{fit(layer.name, name_width)} {fit(layer.kind, 12)}{fit(shape, 10, True)}"
        f"{_short_count(layer.parameters):>8}{layer.forward_us:>7.1f}"
        f"{layer.backward_us:>8.1f}{byte_size(layer.memory_bytes):>9}"
    )
    style = _STAGE_STYLES[layer.stage % len(_STAGE_STYLES)]
    lock = ("L ", MARK) if locked else "  "
    return line(lock, (text, "" if valid else MUTED), (f" ▌{layer.stage:<3}", style))


def _short_count(value: int) -> str:
    return f"{value:,}" if value < 1_000_000 else f"{value / 1e6:,.1f}M"


def _cut(before: LayerPlan, plan: Plan, width: int) -> Content:
    text = f" cut: {byte_size(before.crossing_bytes)} per micro-batch "
    dashes = max(4, width - len(text) - 6)
    return line((f"  {'─' * dashes}{text}──", MUTED))
