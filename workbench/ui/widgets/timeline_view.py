"""The pipeline's timeline: IPUs as rows, tasks as cells."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from ipu_runtime.plan.schedule import Phase
from ipu_runtime.plan.timeline import Timeline
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.content.pieces import MUTED, Part, line

PHASE_STYLES: dict[Phase, str] = {
    Phase.FORWARD: "$phase-forward",
    Phase.BACKWARD: "$phase-backward",
    Phase.RECOMPUTE: "$phase-recompute",
    Phase.WEIGHT_GRADIENT: "$phase-weights",
}
LEGEND = "F forward  B backward  R recompute  U update  · wait"
_UPDATE_STYLE = "$phase-update"
_WIDTHS = (1, 3, 4, 6, 9)
_TIME_COLUMNS = (60, 100, 180, 320, 640)
_LABEL = 7


class TimelineView(ScrollView, can_focus=True):
    """Slots as cells of one width, or tasks as wide as the time they take."""

    DEFAULT_CSS = """
    TimelineView {
        text-wrap: nowrap; overflow-x: auto; overflow-y: auto;
        scrollbar-size-horizontal: 1; scrollbar-size-vertical: 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for(Scope.TIMELINE)]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._timeline: Timeline | None = None
        self._zoom = 1
        self._by_time = False
        self._lines: list[Content] = []

    @property
    def by_time(self) -> bool:
        """Whether cells are as wide as their time."""
        return self._by_time

    @property
    def text(self) -> str:
        """Everything it shows, scrolled out of sight or not."""
        return "\n".join(row.plain for row in self._lines)

    def show_timeline(self, timeline: Timeline | None) -> None:
        """Show another timeline; the place and the zoom stay."""
        self._timeline = timeline
        self._rebuild()

    def _rebuild(self) -> None:
        if self._timeline is None:
            self._lines = []
        elif self._by_time:
            self._lines = _time_lines(self._timeline, _TIME_COLUMNS[self._zoom])
        else:
            self._lines = _slot_lines(self._timeline, _WIDTHS[self._zoom])
        width = max((row.cell_length for row in self._lines), default=0)
        self.virtual_size = Size(width, len(self._lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one IPU; its name stays at the left."""
        width = self.size.width
        number = y + round(self.scroll_y)
        style = self.visual_style
        if number >= len(self._lines):
            return Strip.blank(width, style.rich_style)
        content = self._lines[number]
        whole = Visual.to_strips(
            self, content, max(1, content.cell_length), 1, style, apply_selection=False
        )[0]
        left = _LABEL + round(self.scroll_x)
        body = whole.crop(left, left + width - _LABEL)
        joined = Strip.join([whole.crop(0, _LABEL), body])
        return joined.adjust_cell_length(width, style.rich_style)

    def action_timeline_left(self) -> None:
        """Show earlier slots."""
        self.scroll_relative(x=-12, animate=False)

    def action_timeline_right(self) -> None:
        """Show later slots."""
        self.scroll_relative(x=12, animate=False)

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


def _cell(letter: str, number: int, width: int) -> str:
    text = f"{letter}{number}" if width > 1 else letter
    return f"{text[: width - 1]} ".ljust(width) if width > 1 else text


def _slot_lines(timeline: Timeline, width: int) -> list[Content]:
    schedule = timeline.schedule
    ipus = timeline.ipus
    columns: list[dict[int, Part]] = []
    starts: list[int] = []
    for slot in schedule.slots:
        starts.append(len(columns))
        by_ipu: dict[int, list[Part]] = {ipu: [] for ipu in ipus}
        for action in slot:
            cell = _cell(action.phase.value, action.micro_batch, width)
            by_ipu[schedule.device_mapping[action.stage]].append(
                (cell, PHASE_STYLES[action.phase])
            )
        for index in range(max(1, *(len(cells) for cells in by_ipu.values()))):
            columns.append(
                {
                    ipu: cells[index]
                    for ipu, cells in by_ipu.items()
                    if index < len(cells)
                }
            )
    wait = ("··" if width > 2 else "·").ljust(width)
    rows = [line((_ruler(starts, len(columns), width), MUTED))]
    for ipu in ipus:
        parts: list[Part] = [(f"IPU{ipu}".ljust(_LABEL - 1), MUTED), ("│", MUTED)]
        parts += [column.get(ipu, (wait, MUTED)) for column in columns]
        rows.append(line(*parts, ("│", MUTED), ("U", _UPDATE_STYLE)))
    return rows


def _ruler(starts: list[int], columns: int, width: int) -> str:
    marks = [" "] * (columns * width + 8)
    every = 5 if width > 1 else 10
    for slot in range(0, len(starts), every):
        text = str(slot)
        place = starts[slot] * width
        marks[place : place + len(text)] = text
    return "slot".ljust(_LABEL) + "".join(marks).rstrip()


def _time_lines(timeline: Timeline, columns: int) -> list[Content]:
    per_column = timeline.total_us / columns
    rows = [line((_time_ruler(timeline.total_us, columns), MUTED))]
    for ipu in timeline.ipus:
        cells: list[tuple[str, str]] = [("·", MUTED)] * columns
        for task in timeline.intervals(ipu):
            begin = min(columns - 1, int(task.start_us / per_column))
            end = max(begin + 1, min(columns, round(task.end_us / per_column)))
            label = f"{task.phase.value}{task.micro_batch}"
            text = label.ljust(end - begin, "-" if end - begin > len(label) else " ")
            for place in range(begin, end):
                cells[place] = (text[place - begin], PHASE_STYLES[task.phase])
        parts: list[Part] = [(f"IPU{ipu}".ljust(_LABEL - 1), MUTED), ("│", MUTED)]
        rows.append(line(*parts, *cells, ("│", MUTED), ("U", _UPDATE_STYLE)).simplify())
    return rows


def _time_ruler(total_us: float, columns: int) -> str:
    marks = [" "] * (columns + 10)
    for place in range(0, columns, 20):
        text = f"{total_us * place / columns:.0f}"
        marks[place : place + len(text)] = text
    return "us".ljust(_LABEL) + "".join(marks).rstrip()
