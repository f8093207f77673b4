"""What a weight update takes at least besides its layers: sums, optimizer, host."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ipu_runtime.plan.costs.host_io import feed_us, host_rate_gb_s, host_sync_us
from ipu_runtime.plan.costs.layer_costs import sum_ops
from ipu_runtime.plan.costs.links import all_reduce_us, count_collectives
from ipu_runtime.plan.device_options import read_config
from ipu_runtime.plan.hardware import HardwareTable, System
from ipu_runtime.plan.layers.tensors import streamed_bytes
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.replica import describe_replica
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.replica_counts import steady_steps
from ipu_runtime.plan.step_time import parts_us
from workbench.optimizing.choice import Choice
from workbench.optimizing.least_memory import Floats

_BUFFER = "optimizations.maximum_cross_replica_sum_buffer_size"


@dataclass(frozen=True, slots=True, eq=False)
class AroundLayers:
    """Read from the plan of a model on one IPU, for one micro-batch."""

    trained: Floats
    """Bytes of every layer."""
    slots: float
    """Values that the optimizer keeps for every weight."""
    own_updates_us: Floats
    """Weight update of every layer."""
    sums: Floats
    """Over replicas, of the gradients of every layer; merged ones count in part."""
    whole_sums: int
    """The same of the whole model; stages share them out, and have no fewer."""
    loop_us: float
    """Of every micro-batch on one IPU, and of every run of a pipeline."""
    streamed_bytes: int
    """What the host sends."""
    rearranged_us: float
    """What I/O tiles do with it, if they do."""
    launch_us: float
    """The host's time to start an execution."""
    batches: int
    """Of an epoch."""
    steady: bool
    """Whether an execution is longer than the samples last."""
    filled: bool
    """Whether the last weight update is filled up, and not left out."""
    hosts: int
    training: bool
    system: System
    constants: Mapping[str, float]

    @classmethod
    def of(
        cls,
        plan: Plan,
        table: HardwareTable,
        system: System,
        trained: Floats,
        *,
        filled: bool,
    ) -> AroundLayers:
        """Read it."""
        request, constants = plan.request, plan.constants
        (memory,), (stage,) = plan.memory, plan.stages
        sums, whole_sums = _sums_over_replicas(request)
        passes_us = stage.forward_us + stage.backward_us + stage.recompute_us
        return cls(
            trained=trained,
            slots=memory.by_category["optimizer"] / max(float(trained.sum()), 1.0),
            own_updates_us=np.array([layer.update_us for layer in plan.layers]),
            sums=sums,
            whole_sums=whole_sums,
            loop_us=plan.run_us - passes_us,
            streamed_bytes=streamed_bytes(
                request.model, request.batch_size, request.label_values
            ),
            rearranged_us=_rearranged_us(request, system, table),
            launch_us=constants["launch_us"],
            batches=request.batches,
            steady=request.steady,
            filled=filled,
            hosts=request.hosts,
            training=request.training,
            system=system,
            constants=constants,
        )

    def least_update_us(self, choice: Choice) -> float:
        """Return the least time of the update itself.

        Layers are shared out evenly at best, and are not cut themselves.
        """
        if not self.training:
            return 0.0
        stages, reduced_us, updates_us = (
            choice.stages,
            self.reduced_us(choice),
            self.updated_us(choice),
        )
        merged = self.whole_sums - float(self.sums.sum())
        all_reduced_us = float(reduced_us.sum()) + merged * self._sum_us(choice)
        return (
            max(all_reduced_us / stages, float(reduced_us.max()))
            + max(float(updates_us.sum()) / stages, float(updates_us.max()))
            + self.loop_us
        )

    def reduced_us(self, choice: Choice) -> Floats:
        """Return the time of the sums over replicas, for every layer."""
        # A sum takes a fixed time and one for every byte.
        billion_us = self._sum_us(choice, 10**9) - self._sum_us(choice)
        return self.sums * self._sum_us(choice) + self.trained * (billion_us / 1e9)

    def updated_us(self, choice: Choice) -> Floats:
        """Return the time of the update of every layer, its state fetched included."""
        if not choice.moves("offload_weight_update_variables"):
            return self.own_updates_us
        shared = choice.moves("replicated_optimizer_state_sharding")
        at_once = min(self.system.ipus_per_machine, choice.replicas * choice.stages)
        states = 2 * self.slots / (choice.replicas if shared else 1)
        us_per_byte = states * at_once / (self.system.ipu.remote_gb_s * 1e3)
        return self.own_updates_us + us_per_byte * self.trained

    def _sum_us(self, choice: Choice, size: int = 0) -> float:
        return all_reduce_us(
            size, choice.replicas, 1, self.constants, choice.ipus_per_replica
        )

    def least_launch_us(self, choice: Choice) -> float:
        """Return its share of starting an execution, which has an epoch at most,
        or what a steady state takes."""
        updates = self.batches / (choice.replicas * choice.accumulation)
        if self.steady:
            unit = choice.accumulation if self.training else choice.stages
            updates = steady_steps(unit) / choice.accumulation
        elif self.filled:
            updates = math.ceil(updates)
        elif self.training:
            updates = max(math.floor(updates), 1)
        synced_us = host_sync_us(self._hosts(choice), self.constants)
        return (self.launch_us + synced_us) / max(updates, 1e-9)

    def _hosts(self, choice: Choice) -> int:
        return self.hosts or self.system.usual_hosts(
            choice.replicas * choice.ipus_per_replica
        )

    def feed_us(self, choice: Choice) -> float:
        """Return the time in which the host sends all micro-batches of all replicas."""
        ipus = choice.replicas * choice.ipus_per_replica
        return choice.accumulation * feed_us(
            self.streamed_bytes,
            ipus,
            choice.replicas,
            self._hosts(choice),
            self.system,
            self.constants,
        )

    def infeed_us(self, replicas: int, ipus_per_replica: int) -> float:
        """Return the time in which one of several replicas gets a micro-batch."""
        rate = host_rate_gb_s(self.system, replicas, ipus_per_replica)
        sent_us = self.constants["infeed_us"] + self.streamed_bytes / (rate * 1e3)
        return sent_us + self.rearranged_us


def _rearranged_us(request: PlanRequest, system: System, table: HardwareTable) -> float:
    half = request.model.dtype == "float16"
    options, _ = read_config(request.config, system, table, half, request.training)
    if not options.infeed_on_io_tiles:
        return 0.0
    replica, _ = describe_replica(request, table, system, options)
    cycles = sum_ops([replica.infeed])
    return sum(parts_us(cycles, options.ipu.clock_hz, table.values))


def _sums_over_replicas(request: PlanRequest) -> tuple[Floats, int]:
    value_bytes = request.model.weight_bytes
    sizes = [
        [weight.size * value_bytes for weight in layer.own_weights if weight.trainable]
        for layer in request.model.stage_layers
    ]
    buffer = int(request.config.get(_BUFFER, 0))
    whole = count_collectives([size for own in sizes for size in own], buffer)
    parts = [
        sum(min(size / buffer, 1.0) if buffer > 0 else 1.0 for size in own)
        for own in sizes
    ]
    return np.array(parts), whole
