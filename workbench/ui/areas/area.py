"""What all main areas have in common."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.message import Message
from textual.widget import Widget

from ipu_runtime.system.file_replacing import replace_file
from workbench.editing.draft import Draft
from workbench.ui.actions import Scope
from workbench.ui.dialogs.question import AskText
from workbench.ui.handlers import Handlers
from workbench.ui.widgets.plain import Vertical

if TYPE_CHECKING:
    from workbench.runs.cpu_figures import Measured


class Area(Vertical):
    """A main area: built when it is first shown, redrawn only while it is seen."""

    DEFAULT_CSS = "Area { height: 1fr; }"
    SCOPE: ClassVar[Scope]

    class Said(Message):
        """Something to confirm in the status bar."""

        def __init__(self, text: str, bad: bool) -> None:
            super().__init__()
            self.text, self.bad = text, bad

    def __init__(self, handlers: Handlers, *, name: str) -> None:
        super().__init__(name=name, id=f"area-{name}")
        self.handlers = handlers
        self.session, self.runs = handlers.session, handlers.runs

    @property
    def draft(self) -> Draft:
        """The experiment that is on the screen."""
        return self.session.draft

    def measured(self) -> Measured | None:
        """Return what the newest run of this very experiment took per batch."""
        draft, runs = self.draft, self.runs
        if draft.spec is None:
            return None
        # It reads experiments, which the first frame can do without.
        from workbench.experiment.tables import spec_to_tables
        from workbench.runs.cpu_figures import Measured, same_times

        # A record has every value; those of a draft are only what was given.
        tables = spec_to_tables(draft.spec)
        for entry in runs.newest_first():
            if entry.preset != draft.preset.name:
                continue
            if not same_times(runs.cached_tables(entry.key), tables):
                continue
            view = runs.view(entry.key)
            newest = view.newest if view is not None else None
            if newest is not None and newest.host_ms_per_batch:
                ms, rate = newest.host_ms_per_batch, newest.host_samples_per_second
                return Measured(ms, rate, "newest run")
        return None

    def measured_on_cpu(self) -> Measured | None:
        """Return the same where it stands for what is not modelled."""
        plan = self.draft.plan
        return self.measured() if plan is not None and plan.not_modelled else None

    @property
    def footer_scopes(self) -> tuple[Scope, ...]:
        """Whose keys the footer shows."""
        return (self.SCOPE,)

    @property
    def has_fix(self) -> bool:
        """Whether `f` has something to set that lets the experiment run."""
        return False

    @property
    def useless(self) -> tuple[str, ...]:
        """Actions of the area that what it shows has no use for."""
        return ()

    def say(self, text: str, bad: bool = False) -> None:
        """Confirm something in the status bar."""
        self.post_message(self.Said(text, bad))

    def refresh_area(self) -> None:
        """Show the present state; called when it changes and when it is shown."""

    def refresh_run(self) -> None:
        """Show what a run has sent since; called a few times a second."""

    def show_field(self, path: str) -> None:
        """Put the cursor on a field, in the area that has fields."""

    def focus_target(self) -> Widget | None:
        """Return what gets the focus when the area is shown."""
        return None

    async def save_text(self, proposal: str, text: str) -> None:
        """Ask for a file, write the text, and say where it is."""
        name = await self.app.push_screen_wait(AskText("Save to file", proposal))
        if not name:
            return
        path = Path(os.path.expanduser(name))
        if not await self.handlers.may_write(path):
            return
        try:
            replace_file(path, text)
        except OSError as error:
            self.say(f"cannot write {path}: {error.strerror}", bad=True)
            return
        self.say(f"wrote {path}")
