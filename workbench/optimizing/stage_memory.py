"""The least memory of the stages of a choice, for every run of layers at once."""

from __future__ import annotations

import numpy as np

from ipu_runtime.plan.schedule.building import fifo_depths
from ipu_runtime.plan.schedule.schedule import ScheduleKind
from workbench.optimizing.choice import Choice
from workbench.optimizing.least_cut import Table
from workbench.optimizing.least_memory import Floats, LeastMemory


def stage_memory(
    memory: LeastMemory,
    choice: Choice,
    *,
    slots: float,
    training: bool,
    io_tiles: bool,
    again_or_not: bool = False,
) -> Table:
    """Return the bytes of a stage: what stays, what waits, what is in work.

    Recomputed or not as the choice has it, or whichever is less.
    """
    pipelined = choice.stages > 1
    resident = np.zeros_like(memory.weights)
    if not choice.moves("replicated_weight_sharding"):
        resident += memory.weights
    if training and not choice.moves("offload_weight_update_variables"):
        resident += slots * memory.trained
    accumulates = training and choice.accumulates
    if accumulates and not choice.moves("offload_gradient_accumulation_buffers"):
        resident += memory.trained
    recomputes = training and choice.recompute
    plain_again = recomputes and not pipelined
    working = memory.working_again if plain_again else memory.working
    if again_or_not and not pipelined:
        working = np.minimum(memory.working, memory.working_again)
    waiting = memory.entering if recomputes else memory.kept
    if again_or_not:
        waiting = np.minimum(memory.entering, memory.kept)
    base = memory.code + working
    cuts = np.zeros_like(resident)
    if pipelined and not io_tiles:
        cuts = memory.crossing + memory.returning
    base = base + (resident + cuts) - (resident - cuts)[:, None]
    depths = (0,) * choice.stages
    if pipelined and not choice.moves("offload_activations"):
        schedule = ScheduleKind(choice.schedule)
        depths = fifo_depths(schedule, choice.stages, training)

    def table(stage: int, rows: slice, columns: slice) -> Floats:
        depth = min(depths[stage], choice.accumulation - 1)
        own: Floats = base[rows, columns]
        if stage == 0 and not io_tiles:
            own = own + memory.streams
        if depth:
            own = own + depth * waiting[rows, columns]
        return own * memory.uneven[rows, columns]

    return table
