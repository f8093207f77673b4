"""The parts of a step's time, in the words that every screen and report uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipu_runtime.plan.plan import StepTime

_PARTS = (
    ("compute_us", "compute", "arithmetic on the tiles"),
    ("exchange_us", "exchange", "data between tiles"),
    ("sync_us", "sync", "fixed cost of supersteps"),
    ("links_us", "links", "copies between IPUs, all-reduce"),
    # "Bubble" is the share of empty cells in a schedule, which is another number.
    ("waiting_us", "waiting", "IPUs wait for each other"),
    ("update_us", "update", "share of the weight update"),
    ("infeed_us", "infeed", "waiting for data from the host"),
    ("launch_us", "launch", "share of starting an execution"),
)


@dataclass(frozen=True, slots=True)
class StepPart:
    """What a step spends time on."""

    title: str
    meaning: str
    us: float


def step_words(replicas: int) -> str:
    """Return what a step is, to be said wherever its time is shown."""
    if replicas > 1:
        return f"each of {replicas} replicas takes one batch"
    return "the replica takes one batch"


def step_parts(step: StepTime) -> list[StepPart]:
    """Return the parts that take time."""
    parts = [
        StepPart(title, meaning, getattr(step, attribute))
        for attribute, title, meaning in _PARTS
    ]
    return [part for part in parts if part.us > 0]
