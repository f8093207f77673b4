"""What is asked of the main screen, whoever asks."""

from __future__ import annotations

from textual.message import Message


class ForkWanted(Message):
    """The experiment of a run is to be opened in the form."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key


class Newest(Message):
    """Something is to be shown anew: once, however often that is asked."""

    def can_replace(self, message: Message) -> bool:
        """Let the queue hold one of a kind."""
        return type(message) is type(self)
