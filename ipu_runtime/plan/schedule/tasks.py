"""The tasks of a schedule as columns, and what they keep alive."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from ipu_runtime.plan.schedule.building import PHASES
from ipu_runtime.plan.schedule.schedule import Schedule

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Counts = tuple[tuple[int, ...], tuple[int, ...]]

_CODE = {phase: code for code, phase in enumerate(PHASES)}
FORWARD, RECOMPUTE, BACKWARD, WEIGHT_GRADIENT = range(4)


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of a schedule as columns, slot by slot, what repeats once."""

    stage: Ints
    phase: Ints
    """Index into PHASES."""
    micro_batch: Ints
    slot: Ints
    ipu: Ints


def read_tasks(schedule: Schedule) -> Tasks:
    """Return the tasks of a schedule as columns."""
    slots = schedule.slots.once
    flat = list(chain.from_iterable(slots))
    stages, phases, numbers = zip(*flat, strict=True)
    stage = np.array(stages, dtype=np.int64)
    counts = np.fromiter(map(len, slots), dtype=np.int64)
    return Tasks(
        stage=stage,
        phase=np.fromiter(map(_CODE.__getitem__, phases), dtype=np.int64),
        micro_batch=np.array(numbers, dtype=np.int64),
        slot=np.repeat(np.arange(len(counts)), counts),
        ipu=np.array(schedule.device_mapping, dtype=np.int64)[stage],
    )


def peak_live(schedule: Schedule, tasks: Tasks, when: Floats) -> Counts:
    """Return the most micro-batches kept alive at once, by stage and by IPU.

    A micro-batch lives from its forward pass to the last task that needs it.
    """
    # What repeats keeps as many alive each time.
    size = (schedule.stages, int(tasks.micro_batch.max()) + 1)
    order = tasks.slot if schedule.kind.on_ipu else when
    born, gone = np.zeros(size), np.zeros(size)
    for phase in (FORWARD, BACKWARD, WEIGHT_GRADIENT):
        chosen = tasks.phase == phase
        place = tasks.stage[chosen], tasks.micro_batch[chosen]
        gone[place] = order[chosen]
        if phase == FORWARD:
            born[place] = order[chosen]
    mapping = np.array(schedule.device_mapping)
    # Not np.unique: it loads masked arrays, which takes longer than a plan.
    ipus = sorted(set(schedule.device_mapping))
    return (
        tuple(_most_alive(born[s], gone[s]) for s in range(schedule.stages)),
        tuple(_most_alive(born[mapping == i], gone[mapping == i]) for i in ipus),
    )


def _most_alive(born: Floats, gone: Floats) -> int:
    births = np.sort(born, axis=None)
    ended = np.searchsorted(np.sort(gone, axis=None), births, side="left")
    return int((np.arange(1, len(births) + 1) - ended).max())
