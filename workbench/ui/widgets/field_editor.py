"""The box that lies over a field's value while it is typed."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class FieldEditor(Input):
    """Enter takes the text, esc leaves the field as it was."""

    DEFAULT_CSS = """
    FieldEditor { layer: overlay; display: none; height: 1; border: none; padding: 0; }
    FieldEditor:focus { border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel_edit", "Cancel", show=False)
    ]

    class Done(Message):
        """The text is taken, or None if the field stays as it was."""

        def __init__(self, path: str, text: str | None) -> None:
            super().__init__()
            self.path = path
            self.text = text

    path = ""

    def edit(self, path: str, text: str, x: int, y: int, width: int) -> None:
        """Begin to edit a field at a place of the form."""
        self.path, self.value = path, text
        self.styles.offset = (x, y)
        self.styles.width = width
        self.display = True
        # At once, so that what is typed ahead arrives here.
        self.screen.set_focus(self)
        self.action_end()

    def _close(self, text: str | None) -> None:
        if not self.display:
            return
        self.display = False
        self.post_message(self.Done(self.path, text))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the text."""
        event.stop()
        self._close(self.value)

    def action_cancel_edit(self) -> None:
        """Leave the field as it was."""
        self._close(None)

    def on_blur(self) -> None:
        """Leaving the field by mouse or tab takes the text."""
        self._close(self.value)
