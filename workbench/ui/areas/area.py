"""What all main areas have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.containers import Vertical
from textual.widget import Widget

from workbench.core.draft import Draft
from workbench.ui.actions import Scope
from workbench.ui.messages import ExperimentChanged, Said

if TYPE_CHECKING:
    from workbench.ui.app import WorkbenchApp


class Area(Vertical):
    """A main area: built when it is first shown, redrawn only while it is seen."""

    DEFAULT_CSS = "Area { height: 1fr; }"
    SCOPE: ClassVar[Scope]

    @property
    def workbench(self) -> WorkbenchApp:
        """The app, with its own type."""
        return cast("WorkbenchApp", self.app)

    @property
    def draft(self) -> Draft:
        """The experiment that is on the screen."""
        return self.workbench.draft

    @property
    def footer_scopes(self) -> tuple[Scope, ...]:
        """Whose keys the footer shows."""
        return (self.SCOPE,)

    def say(self, text: str, bad: bool = False) -> None:
        """Confirm something in the status bar."""
        self.post_message(Said(text, bad))

    def changed(self) -> None:
        """Tell everybody that the experiment is another one now."""
        self.post_message(ExperimentChanged())

    def refresh_area(self) -> None:
        """Show the present state; called when it changes and when it is shown."""

    def refresh_run(self) -> None:
        """Show what a run has sent since; called a few times a second."""

    def focus_target(self) -> Widget | None:
        """Return what gets the focus when the area is shown."""
        return None
