"""Blocks of a model by the names of its layers: `encoder_3_norm` is in `encoder_3`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

_SEPARATOR = re.compile(r"[_/.]")
_SMALLEST_UNNUMBERED = 3
"""Two layers that share a word need not belong together."""


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers that follow each other and share the first words of their names."""

    name: str
    first: int
    last: int
    inner: tuple[LayerGroup, ...] = ()

    @property
    def size(self) -> int:
        """Number of layers."""
        return self.last - self.first + 1


def layer_groups(names: Sequence[str]) -> tuple[LayerGroup, ...]:
    """Return the blocks of a model, in order, with the blocks inside them."""
    groups = _groups(names, 0, len(names), 0)
    return tuple(group for group in groups if group.size < len(names))


def _groups(
    names: Sequence[str], first: int, end: int, depth: int
) -> tuple[LayerGroup, ...]:
    keys = [_key(name, depth) for name in names[first:end]]
    for position, (name, after) in enumerate(
        zip(names[first : end - 1], keys[1:], strict=True)
    ):
        # `stem` itself begins the block of `stem_norm` and `stem_relu`.
        if name == after:
            keys[position] = after
    found: list[LayerGroup] = []
    start = first
    for key, members in groupby(keys):
        last = start + len(list(members)) - 1
        if key and _belong_together(key, names[start : last + 1]):
            inner = _groups(names, start, last + 1, depth + 1)
            found.append(LayerGroup(key, start, last, inner))
        start = last + 1
    return tuple(found)


def _belong_together(key: str, members: Sequence[str]) -> bool:
    if any(sign.isdigit() for sign in key) or members[-1].startswith(f"{key}/"):
        return len(members) > 1
    # Keras calls its own layers batch_normalization, batch_normalization_1, ...
    kinds = {re.sub(r"_?\d+$", "", name) for name in members}
    return len(members) >= _SMALLEST_UNNUMBERED and len(kinds) > 1


def _key(name: str, depth: int) -> str:
    """Return the first words that name a block: up to a number, or a part's slash."""
    heads = []
    for match in _SEPARATOR.finditer(name):
        head, tail = name[: match.start()], name[match.end() :]
        word = _SEPARATOR.split(head)[-1]
        numbered = any(sign.isdigit() for sign in word)
        if (numbered or match[0] == "/") and any(sign.isalpha() for sign in tail):
            heads.append(head)
    if depth < len(heads):
        return heads[depth]
    first, _, rest = name.partition("_")
    return first if depth == 0 and not heads and re.search("[a-z]", rest) else ""
