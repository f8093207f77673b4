"""All runs in one table: sort, filter, note, tag, pin, rename, fork, delete."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import ModalScreen

from ipu_runtime.reports.document import BAD, MARK, MUTED
from workbench.runs.run_notes import notes_text
from workbench.services.run_entries import RunEntry
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.content.run_words import SYMBOLS, begun_text
from workbench.ui.handlers import Handlers
from workbench.ui.steady_size import SteadySize
from workbench.ui.widgets.filter_line import FilterLine
from workbench.ui.widgets.plain import Static, Vertical
from workbench.ui.widgets.row_list import Row, RowList
from workbench.ui.widgets.run_messages import Newest
from workbench.ui.widgets.sidebar_lists import MOST_ROWS
from workbench.views.cells import fit
from workbench.views.content import line, lines

_ID, _BEGUN, _RESULT = 19, 13, 11
_KEYS = "enter open  space mark  / filter  o order  P pin  n note  t tags  e name"
_MORE_KEYS = "f fork  v run with one change  r resume  D delete  esc closes"


class RunsScreen(SteadySize, ModalScreen[str]):
    """Gives back the key of a run that is to be forked; empty for none."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_for(Scope.RUNS),
        Binding("escape,q", "close", "Close", show=False),
    ]

    class Changed(Newest):
        """The list is to be shown anew."""

    def __init__(self, handlers: Handlers) -> None:
        super().__init__()
        self._handlers, self._runs = handlers, handlers.runs
        self._words = ""
        self._shown: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Build filter, table and what can be done."""
        with Vertical(classes="box runs-box"):
            yield FilterLine(placeholder="words, #tag or field=value; esc clears")
            yield Static(id="runs-heading")
            yield RowList(id="all-runs")
            yield Static(id="runs-said")
            yield Static(lines(line((_KEYS, MUTED)), line((_MORE_KEYS, MUTED))))

    def on_mount(self) -> None:
        """Show the runs, and those that come."""
        self._show()
        table = self._table
        table.cursor_key = self._runs.viewed
        table.focus()
        self._runs.queue_changed.connect(self._runs_changed)
        self._runs.run_grew.connect(self._runs_changed)

    def on_unmount(self) -> None:
        """Listen no more."""
        self._runs.queue_changed.disconnect(self._runs_changed)
        self._runs.run_grew.disconnect(self._runs_changed)

    def _runs_changed(self, told: object) -> None:
        self.post_message(self.Changed())

    @property
    def _table(self) -> RowList:
        return self.query_one("#all-runs", RowList)

    @on(Changed)
    @on(RowList.Resized)
    def _show(self) -> None:
        runs = self._runs
        every = runs.entries()
        entries = [item for item in every if runs.lets_through(item, self._words)]
        box = self.query_one(".runs-box")
        box.border_title = f"Runs, {runs.order}"
        box.border_subtitle = f"{len(entries)} of {len(every)}"
        width = max(40, self._table.scrollable_content_region.width)
        state = (entries, list(self._handlers.marked.keys), width)
        if state == self._shown:
            return
        self._shown = state
        marked = self._handlers.marked.keys
        rows = [
            Row(_line(item, item.key in marked, width), item.key)
            for item in entries[:MOST_ROWS]
        ]
        if len(entries) > MOST_ROWS:
            more = f"{len(entries) - MOST_ROWS:,} more: / filters"
            rows.append(Row(line((more, MUTED))))
        text = "no run has it" if self._words else "no runs yet: F5 starts one"
        self._table.set_rows(rows or [Row(line((text, MUTED)))])
        self.query_one("#runs-heading", Static).update(_heading(width))

    @on(RowList.Highlighted)
    def _moved(self, event: RowList.Highlighted) -> None:
        entries = self._runs.entries() if event.key else []
        notes = [notes_text(item.notes) for item in entries if item.key == event.key]
        # In full, because the table cuts what is said about a run.
        said = [self._runs.title(event.key), *notes] if event.key else []
        self.say("   ".join(text for text in said if text))

    def say(self, text: str, bad: bool = False) -> None:
        """Confirm something below the table."""
        self.query_one("#runs-said", Static).update(line((text, BAD if bad else MARK)))

    @property
    def _key(self) -> str:
        return self._table.cursor_key

    @on(FilterLine.Changed)
    def _filter(self, event: FilterLine.Changed) -> None:
        event.stop()
        self._words = event.value
        self._show()

    @on(FilterLine.Closed)
    def _leave_filter(self) -> None:
        self._table.focus()

    def action_runs_filter(self) -> None:
        """Type what runs have to have."""
        self.query_one(FilterLine).open_filter()

    def action_runs_order(self) -> None:
        """Take the next order."""
        self._runs.next_order()
        self._show()

    @on(RowList.Clicked)
    async def action_runs_open(self) -> None:
        """Look at the run."""
        key = self._key
        self.dismiss("")
        if key:
            await self._handlers.open(key)

    def action_runs_mark(self) -> None:
        """Put the run into the comparison, or take it out."""
        if self._key:
            self._handlers.toggle_mark(self._key)

    def action_runs_pin(self) -> None:
        """Keep the run on top, or let it go."""
        self._handlers.pin(self._key)

    @work
    async def action_runs_note(self) -> None:
        """Write a note."""
        await self._handlers.note(self._key)

    @work
    async def action_runs_tag(self) -> None:
        """Give it tags."""
        await self._handlers.tag(self._key)

    @work
    async def action_runs_rename(self) -> None:
        """Give it a name."""
        await self._handlers.rename(self._key)

    @work
    async def action_runs_delete(self) -> None:
        """Ask, then delete it."""
        await self._handlers.delete(self._key)

    def action_runs_fork(self) -> None:
        """Open its experiment in the form."""
        self.dismiss(self._key)

    @work
    async def action_runs_vary(self) -> None:
        """Run it again with one field changed."""
        if await self._handlers.vary(self._key):
            self.dismiss("")

    async def action_runs_resume(self) -> None:
        """Go on with it."""
        key = self._key
        self.dismiss("")
        await self._handlers.resume(key)

    def action_close(self) -> None:
        """Show all runs again, or go back if they are shown."""
        if self._words:
            self.query_one(FilterLine).clear_filter()
        else:
            self.dismiss("")


def _heading(width: int) -> Content:
    text = f"   {'run':<{_ID}}{'begun':<{_BEGUN}}{'result':<{_RESULT}}name and notes"
    return line((fit(text, width), MUTED))


def _line(entry: RunEntry, marked: bool, width: int) -> Content:
    sign, style = SYMBOLS[entry.status]
    pin = "▴" if entry.notes.pinned else " "
    said = notes_text(entry.notes).removeprefix("pinned").removeprefix(" ")
    said = said.removeprefix(entry.notes.name).lstrip(": ")
    room = max(10, width - 3 - _ID - _BEGUN - _RESULT)
    name = f"{entry.name}  {said}".rstrip()
    return line(
        ("•", MARK) if marked else " ",
        (sign, style),
        (pin, MARK),
        fit(entry.run_id or "-", _ID),
        fit(begun_text(entry.begun), _BEGUN),
        (fit(entry.result, _RESULT), MUTED),
        fit(name, room),
    )
