"""What a choice can reach at best, whatever its cuts: never less than it does reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from ipu_runtime.plan.costs.host_io import feed_us
from ipu_runtime.plan.costs.links import all_reduce_us, physical_order, transfer_us
from ipu_runtime.plan.hardware import System, load_table
from ipu_runtime.plan.model.tensors import streamed_bytes
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import compile_share, make_plan
from ipu_runtime.plan.schedule.building import fifo_depths
from ipu_runtime.plan.schedule.schedule import ScheduleKind
from workbench.core.optimizing.choice import Choice
from workbench.core.optimizing.least_cut import LeastCut, Table, find_least_cut
from workbench.core.optimizing.least_memory import Floats, LeastMemory
from workbench.core.optimizing.rhythm import Rhythm, find_rhythm


@dataclass(frozen=True, slots=True, eq=False)
class LayerCosts:
    """Modelled sums over the layers, for one micro-batch."""

    forward: Floats
    """The first has the infeed."""
    again: Floats
    """The same without it: what is recomputed."""
    backward: Floats
    slowest_us: float
    """Both passes of the slowest layer."""
    update_us: float
    """Weight update on one IPU."""
    compile_s: float
    """Of the program of one IPU: stages share no more than all layers do there."""
    pair_copy_us: Floats
    """There and back between the two IPUs of a pair, for a cut before each layer."""
    row_copy_us: Floats
    """The same between other neighbours."""
    selection_order: str
    slots: float
    """Values that the optimizer keeps for every weight."""
    streamed_bytes: int
    """What the host sends."""
    hosts: int
    system: System
    memory: LeastMemory
    room: float
    """Bytes of an IPU, were all its tiles as full as the fullest."""
    io_tiles: bool
    training: bool
    constants: Mapping[str, float]
    cuts: dict[object, LeastCut | None] = field(default_factory=dict)
    """Those found so far: most choices differ in what cuts do not depend on."""

    @classmethod
    def of(cls, plan: Plan, *, accumulates: bool) -> LayerCosts | None:
        """Read them from the plan of a model on one IPU; None if it has none."""
        request, constants = plan.request, plan.constants
        table = load_table(request.hardware_file)
        system = table.system(request.system)
        if accumulates:
            more = replace(request, gradient_accumulation=2)
            plan = make_plan(more, with_remedies=False)
        if not plan.layers or system is None:
            return None
        (item,), layers = plan.memory, plan.layers
        again, backward = (
            _sums(layer.forward_us for layer in layers),
            _sums(layer.backward_us for layer in layers),
        )
        forward = again + max(0.0, plan.stages[0].forward_us - float(again[-1]))
        forward[0] = 0.0
        memory = LeastMemory.of(plan, table)
        return cls(
            forward=forward,
            again=again,
            backward=backward,
            slowest_us=float(np.diff(forward + backward).max()),
            update_us=plan.update_us,
            compile_s=plan.compile_s,
            pair_copy_us=_copies_us(memory, 1, constants),
            row_copy_us=_copies_us(memory, 2, constants),
            selection_order=str(request.config.get("selection_order", "AUTO")),
            slots=item.by_category["optimizer"] / max(float(memory.trained[-1]), 1.0),
            streamed_bytes=streamed_bytes(
                request.model, request.batch_size, request.label_values
            ),
            hosts=request.hosts,
            system=system,
            memory=memory,
            # A plan counts whole bytes of a tile.
            room=float(item.capacity_bytes + item.tiles),
            io_tiles=item.io_tiles > 0,
            training=request.training,
            constants=constants,
        )

    def least_us(self, choice: Choice) -> float:
        """Return the least time of a weight update with all its micro-batches."""
        device_us = self._run_us(choice) + self._update_us(choice)
        ipus = choice.replicas * choice.ipus_per_replica
        host_us = choice.accumulation * feed_us(
            self.streamed_bytes,
            ipus,
            choice.replicas,
            self.hosts,
            self.system,
            self.constants,
        )
        return max(device_us, host_us)

    def least_compile_s(self, choice: Choice) -> float:
        """Return the least time to compile the program of a replica."""
        return self.compile_s * compile_share(choice.stages, self.constants)

    def least_in_memory_us(self, choice: Choice) -> float | None:
        """Return the same for stages that hold their layers; None if none can.

        The slowest stage of the best cut works on every micro-batch, and others run
        before and after it.
        """
        cut = self.least_cut(choice)
        if cut is None:
            return None
        slowest_us = cut.slowest_us
        least = self.least_us(choice)
        if not _overlaps(choice):
            return least
        rhythm = self._rhythm(choice)
        run_us = max(
            choice.accumulation * slowest_us,
            rhythm.full * slowest_us
            + rhythm.forward * float(self.forward[-1])
            + rhythm.backward * float(self.backward[-1])
            + (rhythm.steps - rhythm.full) * self._copy_us(choice),
        )
        return max(run_us + self._update_us(choice), least)

    def least_cut(self, choice: Choice, share: float = 1.0) -> LeastCut | None:
        """Return the cut whose slowest stage is fastest, of those that may fit.

        A share of the room leaves some for what the bound does not count.
        """
        room = self.room * share
        key = room, *choice.memory_key
        if key not in self.cuts:
            self.cuts[key] = find_least_cut(
                len(self.forward) - 1,
                choice.stages,
                self._times(choice),
                self._bytes(choice),
                room,
            )
        return self.cuts[key]

    def _update_us(self, choice: Choice) -> float:
        """Return the least time of the update itself: weights are shared out evenly."""
        if not self.training:
            return 0.0
        share = float(self.memory.trained[-1]) / choice.stages
        reduce = all_reduce_us(
            int(share), choice.replicas, 1, self.constants, choice.ipus_per_replica
        )
        streamed = 0.0
        if choice.moves("offload_weight_update_variables"):
            shared = choice.moves("replicated_optimizer_state_sharding")
            at_once = min(self.system.ipus_per_machine, choice.replicas * choice.stages)
            size = 2 * self.slots * share / (choice.replicas if shared else 1)
            streamed = size * at_once / (self.system.ipu.remote_gb_s * 1e3)
        return self.update_us / choice.stages + reduce + streamed

    def _run_us(self, choice: Choice) -> float:
        count, stages = choice.accumulation, choice.stages
        forward, backward = float(self.forward[-1]), float(self.backward[-1])
        both = forward + backward
        if not _overlaps(choice):
            return count * both
        rhythm = self._rhythm(choice)
        again = float(self.again[-1]) if self._recomputes(choice) else 0.0
        bounds = [
            count * self.slowest_us,
            count * both / stages,
            # The last stage does not recompute, and is no slower than the slowest.
            count * (both + again) / (stages + 1),
            rhythm.all_forward * forward + rhythm.all_backward * backward,
            rhythm.only_forward * forward,
            rhythm.only_backward * backward,
        ]
        return max(bounds) + rhythm.steps * self._copy_us(choice)

    def _copy_us(self, choice: Choice) -> float:
        """Return the least that stages wait for their copies in every step."""
        copies = self.row_copy_us if choice.stages > 2 else self.pair_copy_us
        return float(copies[1:-1].min(initial=np.inf)) if len(copies) > 2 else 0.0

    def _rhythm(self, choice: Choice) -> Rhythm:
        if not self.training:
            # Executions have as many micro-batches as they like.
            return Rhythm()
        return find_rhythm(
            choice.schedule, choice.stages, choice.accumulation, choice.recompute
        )

    def _recomputes(self, choice: Choice) -> bool:
        return choice.recompute and self.training

    def _times(self, choice: Choice) -> Table:
        """Return both passes of a stage, its recomputation, and its slower copy.

        All stages wait for the slowest copy, so also for those before and after each.
        """
        last = self.forward + self.backward
        early = last + self.again if self._recomputes(choice) else last
        ipus = 1 << (choice.stages - 1).bit_length()
        places = physical_order(self.selection_order, ipus, True)
        none = np.zeros_like(self.pair_copy_us)
        copies = [
            self.row_copy_us if before // 2 != after // 2 else self.pair_copy_us
            for before, after in pairwise(places[: choice.stages])
        ]
        if not self.training or not _overlaps(choice):
            copies = [none] * len(copies)
        copies = [none, *copies, none]

        def table(stage: int, rows: slice, columns: slice) -> Floats:
            sums = last if stage == choice.stages - 1 else early
            times: Floats = sums[None, columns] - sums[rows, None]
            before, after = copies[stage], copies[stage + 1]
            return times + np.maximum(before[rows, None], after[None, columns])

        return table

    def _bytes(self, choice: Choice) -> Table:
        """Return the memory of a stage: what stays, what waits, what is in work."""
        memory, pipelined = self.memory, choice.stages > 1
        resident = np.zeros_like(memory.weights)
        if not choice.moves("replicated_weight_sharding"):
            resident += memory.weights
        if self.training and not choice.moves("offload_weight_update_variables"):
            resident += self.slots * memory.trained
        accumulates = self.training and choice.accumulates
        if accumulates and not choice.moves("offload_gradient_accumulation_buffers"):
            resident += memory.trained
        recomputes = self._recomputes(choice)
        plain_again = recomputes and not pipelined
        base = memory.code + (memory.working_again if plain_again else memory.working)
        cuts = np.zeros_like(resident)
        if pipelined and not self.io_tiles:
            cuts = memory.crossing + (memory.returning if self.training else 0.0)
        base = base + (resident + cuts) - (resident - cuts)[:, None]
        depths = (0,) * choice.stages
        if pipelined and not choice.moves("offload_activations"):
            schedule = ScheduleKind(choice.schedule)
            depths = fifo_depths(schedule, choice.stages, self.training)

        def table(stage: int, rows: slice, columns: slice) -> Floats:
            depth = min(depths[stage], choice.accumulation - 1)
            own: Floats = base[rows, columns]
            if stage == 0 and not self.io_tiles:
                own = own + memory.streams
            if depth:
                waiting = memory.entering if recomputes else memory.kept
                own = own + depth * waiting[rows, columns]
            return own * memory.uneven[rows, columns]

        return table


def _sums(values: Iterable[float]) -> Floats:
    return np.concatenate([[0.0], np.cumsum(list(values))])


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


def _overlaps(choice: Choice) -> bool:
    return choice.stages > 1 and choice.schedule != ScheduleKind.SEQUENTIAL.value
