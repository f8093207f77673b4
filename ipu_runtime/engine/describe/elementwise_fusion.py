"""Chains of operations on every value, which the compiler makes one expression of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ipu_runtime.plan.model.operations import Operation, joined


def fused(
    operations: Sequence[Any],
    elementwise: Mapping[str, Operation],
    origin: Callable[[Any], Any],
) -> list[Operation]:
    """Return one operation for each chain of values of the same count.

    Values are loaded and stored once: the dearest operation counts in full, every
    further one a cycle per vector.
    """
    size = {name: joined(op.shape) for name, op in elementwise.items()}
    sources = {
        operation.name: [origin(tensor).op.name for tensor in operation.inputs]
        for operation in operations
    }
    level = _levels(sources, size)
    cluster = {name: name for name in elementwise}

    def root(name: str) -> str:
        while cluster[name] != name:
            name = cluster[name]
        return name

    for name in elementwise:
        for source in sources[name]:
            if size.get(source) == size[name] and level[source] == level[name]:
                cluster[root(name)] = root(source)
    members: dict[str, list[Operation]] = {}
    for name, op in elementwise.items():
        members.setdefault(root(name), []).append(op)
    return [_one(ops) for ops in members.values()]


def _levels(
    sources: Mapping[str, Sequence[str]], size: Mapping[str, int]
) -> dict[str, int]:
    """Tell how many steps lie before each operation.

    Operations of one level cannot wait for each other through a third one, so they
    may run as one; those that only feed a later chain move on to it.
    """
    level: dict[str, int] = {}
    users: dict[str, list[str]] = {name: [] for name in sources}
    for name, taken in sources.items():
        steps = [0]
        for source in taken:
            if source in level:
                same = name in size and size.get(source) == size[name]
                steps.append(level[source] + (not same))
                users[source].append(name)
        level[name] = max(steps)
    for name in reversed(list(sources)):
        later = users[name]
        if name in size and later and all(size.get(u) == size[name] for u in later):
            level[name] = min(level[user] for user in later)
    return level


def _one(ops: Sequence[Operation]) -> Operation:
    dearest = max(ops, key=lambda op: op.cycles)
    if len(ops) == 1:
        return dearest
    return replace(
        dearest,
        name=f"{dearest.name} and {len(ops) - 1} more",
        cycles=dearest.cycles + len(ops) - 1,
    )
