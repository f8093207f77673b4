"""A screen to read a long text in."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from workbench.ui.steady_size import SteadySize
from workbench.ui.widgets.flow_text import Builder, FlowText
from workbench.ui.widgets.plain import VerticalScroll


class Reader(SteadySize, ModalScreen[None]):
    """Scrolls with the arrows, closes with esc."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,f1,question_mark", "close", "Close", show=False)
    ]

    def __init__(self, title: str, builder: Builder) -> None:
        super().__init__()
        self._title, self._builder = title, builder

    def compose(self) -> ComposeResult:
        """Build the box."""
        with VerticalScroll(classes="box reader") as box:
            box.border_title = self._title
            box.border_subtitle = "esc closes"
            yield FlowText(id="reader-text")

    def on_mount(self) -> None:
        """Break the text for the box."""
        self.query_one(FlowText).show(self._builder)

    def action_close(self) -> None:
        """Go back."""
        self.dismiss()
