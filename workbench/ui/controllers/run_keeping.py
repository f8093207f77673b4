"""What keeps the list of runs in order: notes, tags, names, pins, and deleting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from workbench.runs.events import RunStatus
from workbench.runs.record_files import RecordError
from workbench.runs.run_notes import (
    change_notes,
    delete_run,
    notes_text,
    read_notes,
)
from workbench.runs.run_store import StoredRun
from workbench.ui.controllers.known_runs import KnownRuns
from workbench.ui.controllers.run_board import RunBoard


class KeepingView(Protocol):
    """What it needs of the screen."""

    def say(self, text: str, bad: bool = False) -> None: ...

    def runs_shown(self) -> None: ...

    async def confirm(self, question: str, yes: str, no: str) -> bool: ...

    async def ask_text(
        self, question: str, proposal: str, may_be_empty: bool = False
    ) -> str | None: ...


class RunKeeping:
    """Changes what is said about runs, and takes them away when asked to."""

    def __init__(
        self,
        view: KeepingView,
        board: RunBoard,
        known: KnownRuns,
        look_again: Callable[[], None],
    ) -> None:
        self._view, self._board, self._known = view, board, known
        self._look_again = look_again

    async def note(self, key: str) -> None:
        """Ask for the note of a run."""
        await self._ask(key, "Note", "note", lambda text: text)

    async def rename(self, key: str) -> None:
        """Ask how lists are to call a run; empty is its preset again."""
        await self._ask(key, "Name", "name", lambda text: text)

    async def tag(self, key: str) -> None:
        """Ask for the tags of a run."""
        await self._ask(key, "Tags, separated by spaces", "tags", _tags)

    async def _ask(
        self, key: str, question: str, field: str, read: Callable[[str], Any]
    ) -> None:
        stored = self._stored(key)
        if stored is None:
            return
        value = getattr(read_notes(stored.directory), field)
        now = value if isinstance(value, str) else " ".join(value)
        asked = f"{question} of run {stored.run_id}"
        text = await self._view.ask_text(asked, now, True)
        if text is not None:
            self._change(stored, **{field: read(text)})

    def pin(self, key: str) -> None:
        """Keep a run on top of the lists, or let it go."""
        stored = self._stored(key)
        if stored is not None:
            self._change(stored, pinned=not read_notes(stored.directory).pinned)

    def _change(self, stored: StoredRun, **changes: Any) -> None:
        try:
            notes = change_notes(stored.directory, **changes)
        except RecordError as error:
            self._view.say(str(error), bad=True)
            return
        self._known.annotate(stored.run_id, notes)
        said = notes_text(notes) or "nothing is said about it now"
        self._view.say(f"{stored.run_id}: {said}")
        self._view.runs_shown()

    def _stored(self, key: str) -> StoredRun | None:
        stored = self._known.record(key)
        if stored is None:
            self._view.say("the run has no record yet", bad=True)
        return stored

    async def delete(self, key: str) -> None:
        """Ask, then delete a run that has ended, or take one out of the queue."""
        live = self._board.find(key)
        if live is not None and live.monitor.status is RunStatus.QUEUED:
            question = f"Take {live.monitor.preset} out of the queue?"
            if await self._view.confirm(question, "take it out", "let it wait"):
                self._board.runs.remove(live)
                self._view.runs_shown()
            return
        stored = self._stored(key)
        if stored is None:
            return
        question = f"Delete run {stored.run_id} of {stored.preset}? Its curves, "
        question += "checkpoints and log are lost."
        if not await self._view.confirm(question, "delete it", "keep it"):
            return
        try:
            delete_run(stored)
        except RecordError as error:
            self._view.say(str(error), bad=True)
            return
        if live is not None:
            self._board.runs.remove(live)
        self._known.forget(key, stored.run_id)
        self._view.say(f"{stored.run_id} is deleted")
        self._view.runs_shown()
        self._look_again()


def _tags(text: str) -> tuple[str, ...]:
    return tuple(text.replace("#", " ").replace(",", " ").split())
