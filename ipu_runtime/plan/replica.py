"""One copy of the model on the device: what times and memory are worked out from."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ipu_runtime.plan.costs.fetching import Fetching, StageBytes
from ipu_runtime.plan.costs.host_io import (
    broadcast_us,
    feed_us,
    host_rate_gb_s,
    host_sync_us,
    infeed_us,
    outfeed_us,
)
from ipu_runtime.plan.costs.layer_costs import Cycles, LayerWork, infeed_op, sum_ops
from ipu_runtime.plan.costs.op_costs import OpCost
from ipu_runtime.plan.costs.stage_costs import (
    Sums,
    boundary_bytes,
    recomputed_forward,
    sum_stages,
)
from ipu_runtime.plan.device_options import DeviceOptions
from ipu_runtime.plan.hardware import HardwareTable, OptimizerCost, System
from ipu_runtime.plan.layers.tensors import streamed_bytes
from ipu_runtime.plan.memory.liveness import stage_tensors, stash_bytes
from ipu_runtime.plan.memory.memory_plan import MemoryRequest, stage_weights
from ipu_runtime.plan.placements import Residency, residency_of
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.replica_counts import (
    ipus_per_replica,
    replica_count,
    steps_of_execution,
)
from ipu_runtime.plan.schedule.building import fifo_depths
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind
from ipu_runtime.plan.step_time import (
    StepInputs,
    Timing,
    parts_us,
    time_pipeline,
    time_plain,
)

_LEAST_LATE_SHARE = 0.02
"""Share of a step in which hosts are waited for, from which it is said."""


class Replica(NamedTuple):
    """A request, resolved for one replica."""

    request: PlanRequest
    table: HardwareTable
    system: System
    options: DeviceOptions
    optimizer: OptimizerCost
    replicas: int
    ipus_per_replica: int
    stage_of_layer: tuple[int, ...]
    mapping: tuple[int, ...]
    fifo_depth: tuple[int, ...]
    micro_batches: int
    """Of one weight update, or of one run in inference."""
    steps_per_execution: int

    @property
    def with_loss(self) -> bool:
        """Whether targets come along, as in training and evaluation."""
        return self.request.label_values > 0

    @property
    def work(self) -> LayerWork:
        """What the cost of the layers depends on."""
        request, cost, optimizer = self.request, self.options.costing, self.optimizer
        if request.pipeline is not None and request.pipeline.offload_optimizer_state:
            # It comes when it is used, and then nothing else is on the IPU.
            optimizer = optimizer._replace(slots=0)
        return LayerWork(
            request.model, request.batch_size, cost, optimizer, self.with_loss
        )

    @property
    def accumulates(self) -> bool:
        """Whether gradients are added up before an update."""
        several = self.request.gradient_accumulation > 1
        return self.request.training and (several or self.pipelined)

    @property
    def residency(self) -> Residency:
        """What of the parameters stays on the tiles."""
        return residency_of(self.request.pipeline, self.replicas)

    @property
    def pipelined(self) -> bool:
        """Whether the model is cut into stages."""
        return self.request.pipeline is not None

    @property
    def recomputes(self) -> bool:
        """Whether forward activations are computed again."""
        if not self.request.training:
            return False
        if self.request.pipeline is None:
            return self.options.recompute
        return self.request.pipeline.recomputation is not Recomputation.OFF

    @property
    def checkpointed(self) -> bool:
        """Whether recomputation goes from one checkpoint to the next.

        A plain model's does. A pipeline's does where the backward pass recomputes on
        its way, which needs the Grouped schedule.
        """
        pipeline = self.request.pipeline
        if pipeline is None:
            return self.recomputes
        return (
            self.recomputes
            and pipeline.recomputation is Recomputation.WITH_BACKPROPAGATE
            and pipeline.schedule is ScheduleKind.GROUPED
        )

    @property
    def infeed(self) -> OpCost:
        """What the device does with arriving data."""
        request, cost = self.request, self.options.costing
        if self.options.infeed_on_io_tiles:
            cost = cost._replace(tiles=self.options.io_tiles)
        values = request.label_values + sum(
            layer.output_size for layer in request.model.input_layers
        )
        return infeed_op(
            request.batch_size * values,
            cost,
            rearranged_on_host=self.options.rearranged_on_host,
        )

    @property
    def stages(self) -> tuple[Sums, ...]:
        """Operations of every stage, added up."""
        return sum_stages(self.work, self.stage_of_layer)

    @property
    def boundaries(self) -> tuple[tuple[int, int], ...]:
        """Bytes from each stage to the next, and back."""
        return boundary_bytes(
            self.request.model,
            self.request.batch_size,
            self.request.label_values,
            self.stage_of_layer,
        )

    @property
    def streamed_bytes(self) -> int:
        """What the host sends for one micro-batch."""
        request = self.request
        return streamed_bytes(request.model, request.batch_size, request.label_values)

    @property
    def hosts(self) -> int:
        """Machines that feed the replicas."""
        ipus = self.replicas * self.ipus_per_replica
        return self.request.hosts or self.system.usual_hosts(ipus)

    @property
    def feed_us(self) -> float:
        """Time in which a host sends what its replicas take in a step."""
        return self._fed_by_us(self.hosts)

    def _fed_by_us(self, hosts: int) -> float:
        return feed_us(
            self.streamed_bytes,
            self.replicas * self.ipus_per_replica,
            self.replicas,
            hosts,
            self.system,
            self.table.values,
        )

    def feed_problems(self, timing: Timing) -> list[Problem]:
        """Say that the hosts decide how fast it goes, and how many would not."""
        if timing.late_us < _LEAST_LATE_SHARE * timing.step.total_us:
            return []
        needs = "1 host needs" if self.hosts == 1 else f"{self.hosts} hosts need"
        device_us = timing.step.total_us - timing.late_us
        machines = self.replicas * self.ipus_per_replica // self.system.ipus_per_machine
        hosts = self.hosts
        while hosts < machines and self._fed_by_us(hosts) > device_us:
            hosts *= 2
        return [
            Problem(
                "execution.hosts",
                f"the feed decides: {needs} {self.feed_us / 1e3:.3g} ms "
                "to send a step's data, which the IPUs are "
                f"done with in {device_us / 1e3:.3g} ms",
                f"{hosts} hosts, each with execution.instances of its own",
                Severity.WARNING,
                suggestion=None if self.request.instances % hosts else hosts,
            )
        ]

    @property
    def broadcast_us(self) -> float:
        """Time in which all hosts get the first one's weights."""
        weights, _ = stage_weights(self.request.model, self.stage_of_layer)
        return broadcast_us(sum(weights), self.hosts, self.table.values)

    def memory_request(self) -> MemoryRequest:
        """Return what the memory of the replica depends on."""
        pipeline = self.request.pipeline
        return MemoryRequest(
            work=self.work,
            options=self.options,
            stage_of_layer=self.stage_of_layer,
            mapping=self.mapping,
            fifo_depth=self.fifo_depth,
            recomputes=self.recomputes,
            accumulates=self.accumulates,
            offloads=pipeline is not None and pipeline.offload_activations,
            infeed=self.infeed,
            streamed_bytes=self.streamed_bytes,
            boundaries=self.boundaries,
            replicas=self.replicas,
            checkpointed=self.checkpointed,
            residency=self.residency,
        )

    def time(self) -> Timing:
        """Return the modelled times."""
        clock_hz, values = self.options.ipu.clock_hz, self.table.values
        rate = host_rate_gb_s(self.system, self.replicas, self.ipus_per_replica)
        tensors = len(self.request.model.input_layers) + self.with_loss
        streamed = infeed_us(
            self.streamed_bytes, tensors, rate, self.options.stream, values
        )
        infeed = sum_ops([self.infeed])
        if self.options.infeed_on_io_tiles:
            streamed += sum(parts_us(infeed, clock_hz, values))
            infeed = Cycles()
        if not self.with_loss:
            streamed += outfeed_us(self._result_bytes(), rate, values)
        recomputed, fetching = self._recomputed(), self._fetching()
        inputs = StepInputs(
            stages=self.stages,
            infeed=infeed,
            recomputed=recomputed,
            infeed_us=streamed,
            overlapped=self.options.io_tiles > 0,
            accumulates=self.accumulates,
            accumulation=self.micro_batches,
            steps_per_execution=self.steps_per_execution,
            launch_us=values["launch_us"] + host_sync_us(self.hosts, values),
            replicas=self.replicas,
            ipus_per_replica=self.ipus_per_replica,
            sum_buffer_bytes=self.options.sum_buffer_bytes,
            training=self.request.training,
            state_us=fetching.updates_us() if fetching else (0.0,),
            fetched=fetching.passes(own != Cycles() for own in recomputed)
            if fetching
            else (),
            clock_hz=clock_hz,
            constants=values,
        )
        pipeline = self.request.pipeline
        if pipeline is None:
            return self._fed(time_plain(inputs))
        return self._fed(
            time_pipeline(
                inputs,
                pipeline,
                self.mapping,
                self.boundaries,
                self.options.selection_order,
            )
        )

    def _fed(self, timing: Timing) -> Timing:
        """Return times in which a host waits for nobody, but may be waited for."""
        late_us = max(self.feed_us - timing.step.total_us, 0.0)
        step = replace(timing.step, infeed_us=timing.step.infeed_us + late_us)
        return timing._replace(step=step, late_us=late_us)

    def _result_bytes(self) -> int:
        sizes = {layer.name: layer.output_size for layer in self.request.model.layers}
        values = sum(sizes[name] for name in self.request.model.outputs)
        return values * self.request.batch_size * self.options.costing.value_bytes

    def _recomputed(self) -> tuple[Cycles, ...]:
        """Return the forward work of every stage that is done twice."""
        if not self.recomputes:
            return (Cycles(),) * len(self.mapping)
        if self.pipelined:
            again = [stage.forward for stage in self.stages[:-1]]
            last = Cycles()
            if self.checkpointed:
                last = recomputed_forward(
                    self.work, self.stage_of_layer.index(len(self.mapping) - 1)
                )
            return (*again, last)
        return (recomputed_forward(self.work),)

    def _fetching(self) -> Fetching | None:
        """Return what the stages of a pipeline have to wait for."""
        model, pipeline = self.request.model, self.request.pipeline
        if pipeline is None:
            return None
        stages = self.stage_of_layer
        tensors = [0] * len(self.mapping)
        for layer, stage in zip(model.stage_layers, stages, strict=True):
            tensors[stage] += len(layer.own_weights)
        weights, trained = stage_weights(model, stages)
        stash: tuple[int, ...] = (0,) * len(self.mapping)
        if pipeline.offload_activations:
            walked = stage_tensors(self.work, stages, self.checkpointed)
            stash = stash_bytes(walked, self.fifo_depth, self.recomputes)
        state = (self.optimizer.slots * size for size in trained)
        sizes = map(StageBytes, stash, weights, tensors, trained, state)
        return Fetching(
            pipeline,
            self.residency,
            tuple(sizes),
            self.replicas,
            len(set(self.mapping)),
            self.ipus_per_replica,
            self.request.training,
            self.system,
            self.table.values,
        )


def describe_replica(
    request: PlanRequest, table: HardwareTable, system: System, options: DeviceOptions
) -> tuple[Replica, tuple[Problem, ...]]:
    """Resolve a request; an unknown optimizer is a warning."""
    problems: tuple[Problem, ...] = ()
    optimizer = table.optimizers.get(request.optimizer)
    if optimizer is None:
        optimizer = table.optimizers["adam"]
        problems = (
            Problem(
                "train.optimizer",
                f"the cost of {request.optimizer!r} is not known, it is taken for adam",
                f"known are {', '.join(table.optimizers)}",
                Severity.WARNING,
            ),
        )
    pipeline = request.pipeline
    stages = pipeline.stages if pipeline else 1
    mapping = tuple(range(stages))
    depth = (0,) * stages
    steps = steps_of_execution(request)
    micro_batches = request.gradient_accumulation
    if not request.training:
        micro_batches = steps if pipeline else 1
    if pipeline is not None:
        mapping = pipeline.device_mapping or mapping
        depths = fifo_depths(pipeline.schedule, stages, request.training)
        depth = tuple(min(own, micro_batches - 1) for own in depths)
    replica = Replica(
        request=request,
        table=table,
        system=system,
        options=options,
        optimizer=optimizer,
        replicas=replica_count(request),
        ipus_per_replica=ipus_per_replica(pipeline),
        stage_of_layer=request.stage_of_layer,
        mapping=mapping,
        fifo_depth=depth,
        micro_batches=micro_batches,
        steps_per_execution=steps,
    )
    return replica, problems
