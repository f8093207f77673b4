"""The line in which one types words to filter a list."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class FilterLine(Input):
    """Hidden until asked for; esc clears it and gives the focus back."""

    DEFAULT_CSS = """
    FilterLine { display: none; height: 1; border: none; padding: 0; }
    FilterLine:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close_filter", "Clear", show=False),
        Binding("down", "leave_filter", "To the list", show=False),
    ]

    class Closed(Message):
        """The words are done with; the list gets the focus."""

    def open_filter(self) -> None:
        """Show the line and type into it."""
        self.display = True
        # At once, so that what is typed ahead arrives here.
        self.screen.set_focus(self)

    def on_input_submitted(self) -> None:
        """Keep the words and go to what they left."""
        self.action_leave_filter()

    def action_leave_filter(self) -> None:
        """Keep the words and go to what they left."""
        self.post_message(self.Closed())

    def action_close_filter(self) -> None:
        """Forget the words."""
        self.clear_filter()
        self.post_message(self.Closed())

    def clear_filter(self) -> None:
        """Forget the words; the focus stays where it is."""
        self.value = ""
        self.display = False
