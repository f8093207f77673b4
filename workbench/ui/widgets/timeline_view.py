"""The pipeline's timeline: IPUs as rows, tasks as cells, one of them read aloud."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from ipu_runtime.plan.schedule.timeline import Timeline
from workbench.planning.timeline_reading import task_words
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.content.timeline_cells import (
    LABEL,
    Cell,
    Drawing,
    draw_slots,
    draw_time,
    without_cut_labels,
)
from workbench.ui.widgets.plain import PlainText

LEGEND = "F forward  B backward  R recompute  U update  · bubble"
_LEGEND_OF_TIME = LEGEND.replace("bubble", "waiting, or copies")
_WIDTHS = (1, 3, 4, 6, 9)
_TIME_COLUMNS = (60, 100, 180, 320, 640)


class TimelineView(PlainText, ScrollView, can_focus=True):
    """Slots as cells of one width, or tasks as wide as the time they take."""

    DEFAULT_CSS = """
    TimelineView {
        text-wrap: nowrap; overflow-x: auto; overflow-y: auto;
        scrollbar-size-horizontal: 1; scrollbar-size-vertical: 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for(Scope.TIMELINE)]

    class Pointed(Message):
        """The caption is another one: of the cell under the cursor, or the legend."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._timeline: Timeline | None = None
        self._muted = False
        self._zoom = 1
        self._by_time = False
        self._drawing = Drawing()
        self._row, self._column = 0, 0

    @property
    def by_time(self) -> bool:
        """Whether cells are as wide as their time."""
        return self._by_time

    @property
    def text(self) -> str:
        """Everything it shows, scrolled out of sight or not."""
        return "\n".join(row.plain for row in self._drawing.lines)

    @property
    def caption(self) -> str:
        """What the cell under the cursor is; the letters' meaning without focus."""
        cell = self._cell
        if not self.has_focus or cell is None or self._timeline is None:
            return _LEGEND_OF_TIME if self._by_time else LEGEND
        ipu = self._drawing.ipus[self._row]
        return task_words(self._timeline, ipu, cell.task)

    @property
    def _cell(self) -> Cell | None:
        cells = self._drawing.cells
        return cells[self._row][self._column] if cells else None

    def show_timeline(self, timeline: Timeline | None, muted: bool = False) -> None:
        """Show another timeline; the place and the zoom stay."""
        self._timeline, self._muted = timeline, muted
        self._rebuild()

    def _rebuild(self) -> None:
        before, zoom = self._cell, self._zoom
        if self._timeline is None:
            self._drawing = Drawing()
        elif self._by_time:
            columns = _TIME_COLUMNS[zoom]
            self._drawing = draw_time(self._timeline, columns, self._muted)
        else:
            self._drawing = draw_slots(self._timeline, _WIDTHS[zoom], self._muted)
        width = max((row.cell_length for row in self._drawing.lines), default=0)
        self.virtual_size = Size(width, len(self._drawing.lines))
        self._row = min(self._row, max(len(self._drawing.cells) - 1, 0))
        self._point_at(before.task.start_us if before else 0.0)

    def _point_at(self, start_us: float) -> None:
        """Put the cursor on the task of its row that begins nearest to a time."""
        cells = self._drawing.cells
        row = cells[self._row] if cells else ()
        self._column = min(
            range(len(row)),
            key=lambda index: abs(row[index].task.start_us - start_us),
            default=0,
        )
        self._pointed()

    def _pointed(self) -> None:
        cell = self._cell
        if cell is not None:
            left, right = cell.start - LABEL, cell.end - LABEL
            room = self.scrollable_content_region.width - LABEL
            if left < self.scroll_x:
                self.scroll_to(x=left, animate=False)
            elif right > self.scroll_x + room > 0:
                self.scroll_to(x=right - room, animate=False)
        self.refresh()
        self.post_message(self.Pointed())

    def on_focus(self) -> None:
        """Show the cursor."""
        self._pointed()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()
        self.post_message(self.Pointed())

    def render_line(self, y: int) -> Strip:
        """Draw one IPU; its name stays at the left."""
        width = self.size.width
        number = y + round(self.scroll_y)
        style = self.visual_style
        if number >= len(self._drawing.lines):
            return Strip.blank(width, style.rich_style)
        content = self._drawing.lines[number]
        cell = self._cell
        if self.has_focus and cell is not None and number == self._row + 1:
            content = content.stylize("reverse bold", cell.start, cell.end)
        left = LABEL + round(self.scroll_x)
        right = left + self.scrollable_content_region.width - LABEL
        content = without_cut_labels(self._drawing, number, content, (left, right))
        whole = Visual.to_strips(
            self, content, max(1, content.cell_length), 1, style, apply_selection=False
        )[0]
        body = whole.crop(left, right)
        joined = Strip.join([whole.crop(0, LABEL), body])
        return joined.adjust_cell_length(width, style.rich_style)

    def _step(self, columns: int) -> None:
        cells = self._drawing.cells
        if cells:
            last = len(cells[self._row]) - 1
            self._column = min(max(self._column + columns, 0), last)
            self._pointed()

    def _change_row(self, rows: int) -> None:
        cell = self._cell
        if cell is not None:
            last = len(self._drawing.cells) - 1
            self._row = min(max(self._row + rows, 0), last)
            self._point_at(cell.task.start_us)
            self.scroll_to(y=max(0, self._row + 2 - self.size.height), animate=False)

    def action_timeline_left(self) -> None:
        """Read the task before."""
        self._step(-1)

    def action_timeline_right(self) -> None:
        """Read the task after."""
        self._step(1)

    def action_timeline_up(self) -> None:
        """Read what the IPU above does then."""
        self._change_row(-1)

    def action_timeline_down(self) -> None:
        """Read what the IPU below does then."""
        self._change_row(1)

    def action_timeline_zoom_in(self) -> None:
        """Make cells wider."""
        self._zoom = min(self._zoom + 1, len(_WIDTHS) - 1)
        self._rebuild()

    def action_timeline_zoom_out(self) -> None:
        """Make cells narrower."""
        self._zoom = max(self._zoom - 1, 0)
        self._rebuild()

    def action_timeline_scale(self) -> None:
        """Change between slots and time."""
        self._by_time = not self._by_time
        self._rebuild()
