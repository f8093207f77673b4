"""What a choice can reach at best, whatever its cuts: never less than it does reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

from ipu_runtime.plan.costs.links import physical_order, transfer_us
from ipu_runtime.plan.hardware import load_table
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import compile_share
from workbench.optimizing.allowed_cuts import AllowedCuts
from workbench.optimizing.around_layers import AroundLayers
from workbench.optimizing.choice import Choice
from workbench.optimizing.layer_sums import layer_sums
from workbench.optimizing.least_cut import (
    LeastCut,
    Table,
    find_cut_with_copies,
    find_least_cut,
    limits_tried,
)
from workbench.optimizing.least_memory import Floats, LeastMemory
from workbench.optimizing.rhythm import Rhythm, find_rhythm
from workbench.optimizing.stage_memory import stage_memory

_ROUNDED_DOWN = 1 - 1e-12
"""Sums differ in their last digits, and a bound must not be above what it bounds."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerCosts:
    """Modelled sums over the layers, for one micro-batch."""

    forward: Floats
    """The first has the infeed."""
    again: Floats
    """The same without it: what is recomputed."""
    backward: Floats
    alone_again_us: float
    """What one IPU recomputes: all but what follows its last checkpoint."""
    slowest_us: float
    """Both passes of the slowest layer."""
    around: AroundLayers
    compile_s: float
    """Of the program of one IPU: stages share no more than all layers do there."""
    pair_copy_us: Floats
    """Between the two IPUs of a pair, and in training back, by the layer after it."""
    row_copy_us: Floats
    """The same between other neighbours."""
    selection_order: str
    allowed: AllowedCuts
    memory: LeastMemory
    room: float
    """Bytes of an IPU, were all its tiles as full as the fullest."""
    io_tiles: bool
    training: bool
    constants: Mapping[str, float]
    cuts: dict[object, LeastCut | None] = field(default_factory=dict)
    """Those found so far: most choices differ in what cuts do not depend on."""

    @classmethod
    def of(
        cls,
        plan: Plan,
        allowed: AllowedCuts,
        *,
        filled: bool,
        any_device: bool = False,
    ) -> LayerCosts | None:
        """Read them from the plan of a model on one IPU; None if it has none.

        Args:
            plan: It recomputes, if its training may.
            allowed: Which cuts there may be.
            filled: Whether the last update of an epoch is filled up.
            any_device: Count only what every device has that has no more tiles and no
                more of their memory for products. Those with I/O tiles hide the host.
        """
        request, constants = plan.request, plan.constants
        table = load_table(request.hardware_file)
        system = table.system(request.system)
        if not plan.layers or system is None:
            return None
        (item,) = plan.memory
        again, backward, fewer = layer_sums(plan, system.ipu.clock_hz, any_device)
        forward = again.copy()
        if not any_device:
            forward[1:] += max(0.0, plan.stages[0].forward_us - float(again[-1]))
        memory = LeastMemory.of(plan, table, any_device=any_device)
        return cls(
            forward=forward,
            again=again,
            backward=backward,
            alone_again_us=plan.stages[0].recompute_us,
            slowest_us=float(np.diff(forward + backward).max()),
            around=AroundLayers.of(
                plan, table, system, np.diff(memory.trained), filled=filled
            ),
            compile_s=plan.compile_s - fewer * constants["compile_s_per_superstep"],
            pair_copy_us=_copies_us(memory, 1, constants),
            row_copy_us=_copies_us(memory, 2, constants),
            selection_order=str(request.config.get("selection_order", "AUTO")),
            allowed=allowed,
            memory=memory,
            # A plan counts whole bytes of a tile.
            room=float(item.capacity_bytes + item.tiles),
            io_tiles=any_device or item.io_tiles > 0,
            training=request.training,
            constants=constants,
        )

    def least_us(self, choice: Choice) -> float:
        """Return the least time of a weight update with all its micro-batches."""
        return self._with_rest(self._run_us(choice), choice)

    def _with_rest(self, run_us: float, choice: Choice) -> float:
        """Add to the time of a run what an update has besides."""
        device_us = run_us + self.around.least_update_us(choice)
        return float(self.with_host(np.array(device_us), choice))

    def with_host(self, device_us: Floats, choice: Choice) -> Floats:
        """Return the time of an update that waits for the host where it has to."""
        around = self.around
        launched_us = device_us + around.least_launch_us(choice)
        return np.maximum(launched_us, around.feed_us(choice)) * _ROUNDED_DOWN

    def least_compile_s(self, choice: Choice) -> float:
        """Return the least time to compile the program of a replica."""
        return self.compile_s * compile_share(choice.stages, self.constants)

    def least_in_memory_us(
        self, choice: Choice, *, with_copies: bool = True
    ) -> float | None:
        """Return the same for stages that hold their layers; None if none can.

        The slowest stage of the best cut works on every micro-batch, and others run
        before and after it. Without copies it is found sooner, and is less.
        """
        cut = self.least_cut(choice, with_copies=with_copies)
        if cut is None:
            return None
        slowest_us = cut.most
        least = self.least_us(choice)
        if not choice.overlaps:
            return least
        rhythm = self._rhythm(choice)
        run_us = max(
            choice.accumulation * slowest_us,
            rhythm.full * slowest_us
            + rhythm.forward * float(self.forward[-1])
            + rhythm.backward * float(self.backward[-1])
            + (rhythm.steps - rhythm.full) * self._copy_us(choice),
        )
        return max(self._with_rest(run_us, choice), least)

    def least_filled(
        self, choice: Choice, *, again_or_not: bool = False
    ) -> LeastCut | None:
        """Return the cut whose fullest tile is least full, and how full it is."""
        key = "filled", again_or_not, *choice.memory_key
        if key not in self.cuts:
            used = self.bytes_of(choice, again_or_not=again_or_not)
            layers, starts = self.allowed.layers, self.allowed.starts(choice.stages)
            self.cuts[key] = find_least_cut(layers, used, used, self.room, starts)
        cut = self.cuts[key]
        return cut and cut._replace(most=cut.most / self.room)

    def least_cut(
        self, choice: Choice, share: float = 1.0, *, with_copies: bool = True
    ) -> LeastCut | None:
        """Return the cut whose slowest stage is fastest, of those that may fit.

        A share of the room leaves some for what the bound does not count.
        """
        room = self.room * share
        waits = self.streamed_us(choice), self.late_us(choice)
        limits = limits_tried(self.allowed.layers, choice.stages, with_copies)
        key = limits, room, *waits, *choice.memory_key
        if key not in self.cuts:
            self.cuts[key] = self._find_cut(choice, room, limits)
        return self.cuts[key]

    def _find_cut(self, choice: Choice, room: float, limits: int) -> LeastCut | None:
        times, used = self._times(choice), self.bytes_of(choice)
        solved = partial(find_least_cut, self.allowed.layers, times, used, room)
        starts = self.allowed.starts(choice.stages)
        if not choice.overlaps:
            return solved(starts)
        copies = zip(self.copies_us(choice), starts, strict=True)
        allowed = [np.where(may_start, own, np.inf) for own, may_start in copies]
        return find_cut_with_copies(allowed, limits, solved)

    def _run_us(self, choice: Choice) -> float:
        count, stages = choice.accumulation, choice.stages
        late = self.late_us(choice)
        forward, backward = float(self.forward[-1]) + late, float(self.backward[-1])
        both = forward + backward
        if stages == 1:
            both += self.alone_again_us if self.recomputes(choice) else 0.0
            each = max(both, self.streamed_us(choice)) + self.around.loop_us
            # The loop of the last one is in the update.
            return count * each - self.around.loop_us
        if not choice.overlaps:
            least_copy_us = float(self.pair_copy_us[1:-1].min())
            return count * (both + (stages - 1) * least_copy_us)
        copy_us = self._copy_us(choice)
        rhythm = self._rhythm(choice)
        again = float(self.again[-1]) if self.recomputes(choice) else 0.0
        bounds = [
            count * self.slowest_us,
            count * self.streamed_us(choice),
            count * both / stages,
            # The last stage does not recompute, and is no slower than the slowest.
            count * (both + again) / (stages + 1),
            rhythm.all_forward * forward + rhythm.all_backward * backward,
            rhythm.only_forward * forward,
            rhythm.only_backward * backward,
        ]
        return max(bounds) + rhythm.steps * copy_us

    def streamed_us(self, choice: Choice) -> float:
        """Return what the first stage is no faster than, if it streams meanwhile."""
        if not self.io_tiles:
            return 0.0
        return self.around.infeed_us(choice.replicas, choice.ipus_per_replica)

    def late_us(self, choice: Choice) -> float:
        """Return what streaming takes longer because other replicas do it too."""
        if self.io_tiles:
            return 0.0
        around = self.around
        now = around.infeed_us(choice.replicas, choice.ipus_per_replica)
        return now - around.infeed_us(1, 1)

    def _copy_us(self, choice: Choice) -> float:
        """Return the least that stages wait for their copies in every step."""
        copies = self.row_copy_us if choice.stages > 2 else self.pair_copy_us
        return float(copies[1:-1].min(initial=np.inf)) if len(copies) > 2 else 0.0

    def bytes_of(self, choice: Choice, *, again_or_not: bool = False) -> Table:
        """Return the least memory of its stages."""
        return stage_memory(
            self.memory,
            choice,
            slots=self.around.slots,
            training=self.training,
            io_tiles=self.io_tiles,
            again_or_not=again_or_not,
        )

    def _rhythm(self, choice: Choice) -> Rhythm:
        if not self.training:
            # Executions have as many micro-batches as they like.
            return Rhythm()
        return find_rhythm(
            choice.schedule, choice.stages, choice.accumulation, choice.recompute
        )

    def recomputes(self, choice: Choice) -> bool:
        return choice.recompute and self.training

    def _times(self, choice: Choice) -> Table:
        """Return both passes of a stage, and its recomputation."""
        passes = self.forward + self.backward
        again = self.again if self.recomputes(choice) else np.zeros_like(passes)
        streamed_us, late_us = self.streamed_us(choice), self.late_us(choice)

        def table(stage: int, rows: slice, columns: slice) -> Floats:
            times: Floats = passes[None, columns] - passes[rows, None]
            if stage == 0:
                # I/O tiles stream while passes run, not while they are recomputed.
                times = np.maximum(times + late_us, streamed_us)
            if stage < choice.stages - 1:
                times = times + (again[None, columns] - again[rows, None])
            return times

        return table

    def copies_us(self, choice: Choice) -> list[Floats]:
        """Return the time of copies between every two stages, by the layer after."""
        places = physical_order(self.selection_order, choice.ipus_per_replica, True)
        return [
            self.row_copy_us if before // 2 != after // 2 else self.pair_copy_us
            for before, after in pairwise(places[: choice.stages])
        ]


def _copies_us(
    memory: LeastMemory, target: int, constants: Mapping[str, float]
) -> Floats:
    return np.array(
        [
            transfer_us(int(there), 0, target, constants)
            + transfer_us(int(back), 0, target, constants)
            for there, back in zip(memory.crossing, memory.returning, strict=True)
        ]
    )
