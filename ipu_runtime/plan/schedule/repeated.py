"""Sequences whose middle repeats: a long pipeline run without its length."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

import numpy as np
import numpy.typing as npt

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Repeated(Sequence[Item]):
    """A beginning, a middle that comes several times, and an end.

    It reads like the whole sequence, and holds what repeats once.
    """

    once: tuple[Item, ...]
    """The sequence with its middle written once."""
    moved: Callable[[Item, int], Item]
    """Returns an item with its numbers higher by an amount."""
    stride: int = 0
    """By how much a repetition's numbers are higher than those of the one before."""
    first: int = 0
    """Where the middle begins."""
    length: int = 0
    """Of the middle, once."""
    times: int = 1

    def __len__(self) -> int:
        return len(self.once) + (self.times - 1) * self.length

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, index: int | slice) -> Item | tuple[Item, ...]:
        if isinstance(index, slice):
            return tuple(self[at] for at in range(*index.indices(len(self))))
        place, earlier = range(len(self))[index], 0
        if self.length and place >= self.first:
            earlier = min((place - self.first) // self.length, self.times - 1)
        return self._item(place - earlier * self.length, earlier)

    def __iter__(self) -> Iterator[Item]:
        end = self.first + self.length
        yield from self.once[: self.first]
        for earlier in range(self.times):
            for place in range(self.first, end):
                yield self._item(place, earlier)
        for place in range(end, len(self.once)):
            yield self._item(place, self.times - 1)

    def _item(self, place: int, earlier: int) -> Item:
        item = self.once[place]
        return self.moved(item, earlier * self.stride) if earlier else item

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How often each item of `once` comes."""
        counts = np.ones(len(self.once), dtype=np.int64)
        counts[self.first : self.first + self.length] = self.times
        return counts
