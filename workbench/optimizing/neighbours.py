"""Choices that differ from another in one setting."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace

from workbench.optimizing.choice import Choice
from workbench.optimizing.search_space import SearchSpace

_WORDS = {
    "micro_batch": "micro-batch",
    "io_tiles": "I/O tiles",
    "half_partials": "half partials",
    "proportion": "memory proportion",
    "ipus": "IPUs",
    "stages": "stages",
    "accumulation": "accumulation",
    "schedule": "schedule",
    "recompute": "recomputation",
    "elsewhere": "elsewhere",
}


def neighbours(space: SearchSpace, choice: Choice) -> Iterator[tuple[str, Choice]]:
    """Yield them with what is different: `schedule Interleaved`."""
    for device in space.devices():
        name = _only_difference(choice.device, device)
        if name:
            yield from _closest(
                f"{_WORDS[name]} {_shown(getattr(device, name))}",
                choice,
                space.choices(device, choice.stages, choice.ipus),
            )
    for stages, ipus in space.sizes():
        if not choice.stages <= 2 * stages <= 4 * choice.stages:
            continue
        for name, same, value in (
            ("stages", ipus == choice.ipus, stages),
            ("ipus", stages == choice.stages, ipus),
        ):
            if same and (stages, ipus) != (choice.stages, choice.ipus):
                size, others = _sized(space, choice, stages, ipus)
                what = f"{_WORDS[name]} {value}"
                if size != choice.device.micro_batch:
                    what += f", {_WORDS['micro_batch']} {size}"
                yield from _closest(what, choice, others)
    for other in space.choices(choice.device, choice.stages, choice.ipus):
        name = _only_difference(choice, other)
        if name and (not other.streams or choice.streams):
            shown = _shown(getattr(other, name))
            if name == "elsewhere":
                shown = other.elsewhere_text or "nothing"
            yield f"{_WORDS[name]} {shown}", other


def shared_out_otherwise(space: SearchSpace, choice: Choice) -> Iterator[Choice]:
    """Yield choices whose updates have as many samples, on about as many IPUs.

    Replicas, micro-batches and their size change together, everything else stays.
    """
    sizes = {
        device.micro_batch: device
        for device in space.devices()
        if _only_difference(choice.device, device) in ("", "micro_batch")
        and _near(device.micro_batch, choice.device.micro_batch)
    }
    for stages, ipus in space.sizes():
        if stages != choice.stages or not _near(ipus, choice.ipus):
            continue
        for device in sizes.values():
            for other in space.choices(device, stages, ipus):
                same = replace(
                    other,
                    device=choice.device,
                    ipus=choice.ipus,
                    accumulation=choice.accumulation,
                )
                if other.update_samples == choice.update_samples and same == choice:
                    yield other


def _near(one: int, other: int) -> bool:
    return one <= 2 * other and other <= 2 * one


def _sized(
    space: SearchSpace, choice: Choice, stages: int, ipus: int
) -> tuple[int, list[Choice]]:
    """Return choices for other IPUs with the same micro-batch, or else the nearest.

    Updates that keep their samples are shared out among more replicas.
    """
    own = choice.device.micro_batch
    sizes = {
        device.micro_batch
        for device in space.devices()
        if replace(device, micro_batch=own) == choice.device
    }
    for size in sorted(sizes, key=lambda size: abs(math.log(size / own))):
        device = replace(choice.device, micro_batch=size)
        others = list(space.choices(device, stages, ipus))
        if others:
            return size, others
    return own, []


def _closest(
    what: str, choice: Choice, others: Iterable[Choice]
) -> Iterator[tuple[str, Choice]]:
    """Yield the one that is like the choice in everything else but accumulation."""
    alike = (
        other
        for other in others
        if (other.schedule, other.recompute, other.elsewhere)
        == (choice.schedule, choice.recompute, choice.elsewhere)
    )
    best = min(
        alike,
        key=lambda other: abs(other.accumulation - choice.accumulation),
        default=None,
    )
    if best is not None:
        yield what, best


def _only_difference(one: object, other: object) -> str:
    """Return the field in which two differ, if it is one only."""
    names = [
        item.name
        for item in fields(one)  # type: ignore[arg-type]
        if getattr(one, item.name) != getattr(other, item.name)
    ]
    return names[0] if len(names) == 1 else ""


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value) or "default"
