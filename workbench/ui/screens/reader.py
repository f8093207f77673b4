"""A screen to read a long text in."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static


class Reader(ModalScreen[None]):
    """Scrolls with the arrows, closes with esc."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,f1,question_mark", "close", "Close", show=False)
    ]

    def __init__(self, title: str, content: Content) -> None:
        super().__init__()
        self._title, self._content = title, content

    def compose(self) -> ComposeResult:
        """Build the box."""
        with VerticalScroll(classes="box reader") as box:
            box.border_title = self._title
            box.border_subtitle = "esc closes"
            yield Static(self._content)

    def action_close(self) -> None:
        """Go back."""
        self.dismiss()
