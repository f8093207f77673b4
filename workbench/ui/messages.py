"""What parts of the screen tell each other."""

from __future__ import annotations

from textual.message import Message


class RunAdvanced(Message):
    """A run's thread has sent something; only the newest such message counts."""

    def can_replace(self, message: Message) -> bool:
        """Let the queue keep one of them."""
        return isinstance(message, RunAdvanced)


class ExperimentChanged(Message):
    """A value of the current experiment is another one now."""


class Said(Message):
    """Something to confirm in the status bar."""

    def __init__(self, text: str, bad: bool = False) -> None:
        super().__init__()
        self.text = text
        self.bad = bad
