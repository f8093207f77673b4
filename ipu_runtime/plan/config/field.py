"""One declaration per setting: the API object, form, TOML check and help read it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Kind(Enum):
    """What values a field takes."""

    BOOL = "true or false"
    INT = "a whole number"
    FLOAT = "a number"
    TEXT = "text"
    CHOICE = "one of its choices"
    INT_LIST = "a list of whole numbers"
    TEXT_LIST = "a list of texts"
    OPTIONS = "a table of texts"
    IPU_SELECTION = "a whole number or a list of whole numbers"
    STEPS = 'a whole number or "epoch"'


class Affects(Enum):
    """What a change of the field can change."""

    NUMERICS = "numerics"
    TIME = "time"
    MEMORY = "memory"
    DEVICE = "device"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Field:
    """A setting of an experiment or of the IPU configuration."""

    path: str
    """Dotted name, for example `data.batch_size` or `io_tiles.num_io_tiles`."""
    kind: Kind
    default: Any
    help: str
    affects: tuple[Affects, ...] = (Affects.NOTHING,)
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    unit: str = ""
    deprecated: str = ""
    """Why not to use it any more; empty for a current field."""

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.path.rpartition(".")[2]

    @property
    def group(self) -> str:
        """Path without the last part."""
        return self.path.rpartition(".")[0]


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that was most likely meant by a misspelt word."""
    matches = difflib.get_close_matches(word, list(candidates), n=1)
    return matches[0] if matches else None
