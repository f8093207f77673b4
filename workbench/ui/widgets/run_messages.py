"""What widgets ask to be done with a run and the form together."""

from __future__ import annotations

from textual.message import Message


class ForkWanted(Message):
    """The experiment of a run is to be opened in the form."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
