"""A tiny observer: services tell that something has changed, who shows it connects.

Who connects is called at once, on the thread that emits. `Session`, `Runs` and
`Scripts` emit on the one thread that calls them, in the app its event loop: threads
that work on runs emit nothing, what they do is in records, which `Runs.follow` reads. A
`Sweep` emits on the thread that goes through its points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Told = TypeVar("Told")


class Signal(Generic[Told]):
    """Something that happens again and again, with what is told of it."""

    def __init__(self) -> None:
        self._receivers: list[Callable[[Told], object]] = []

    def connect(self, receiver: Callable[[Told], object]) -> None:
        """Call the receiver whenever it happens."""
        self._receivers.append(receiver)

    def disconnect(self, receiver: Callable[[Told], object]) -> None:
        """Call the receiver no more."""
        self._receivers.remove(receiver)

    def emit(self, told: Told) -> None:
        """Tell everybody, in the order in which they have connected."""
        for receiver in tuple(self._receivers):
            receiver(told)
