"""One copy of the model on the device: what times and memory are worked out from."""

from __future__ import annotations

from typing import NamedTuple

from ipu_runtime.plan.hardware import HardwareTable, OptimizerCost, System
from ipu_runtime.plan.host_io import host_rate_gb_s, infeed_us, outfeed_us
from ipu_runtime.plan.layer_costs import Cycles, infeed_op, sum_ops
from ipu_runtime.plan.liveness import stage_tensors
from ipu_runtime.plan.memory import MemoryRequest
from ipu_runtime.plan.modelled_config import DeviceOptions
from ipu_runtime.plan.op_costs import OpCost
from ipu_runtime.plan.plan import PlanRequest
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.replication import (
    ipus_per_replica,
    replica_count,
    steps_per_replica,
)
from ipu_runtime.plan.schedule import Recomputation
from ipu_runtime.plan.schedules import fifo_depths
from ipu_runtime.plan.stage_costs import (
    StageSums,
    boundary_bytes,
    recomputed_forward,
    sum_stages,
)
from ipu_runtime.plan.step_time import (
    StepInputs,
    Timing,
    parts_us,
    time_pipeline,
    time_plain,
)
from ipu_runtime.plan.tensors import streamed_bytes

_SPELLINGS = {
    "gradientdescent": "sgd",
    "gradientdescentoptimizer": "sgd",
    "momentumoptimizer": "momentum",
    "rmspropoptimizer": "rmsprop",
    "adamoptimizer": "adam",
}


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
    def accumulates(self) -> bool:
        """Whether gradients are added up before an update."""
        several = self.request.gradient_accumulation > 1
        return self.request.training and (several or self.pipelined)

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
    def stages(self) -> tuple[StageSums, ...]:
        """Operations of every stage, added up."""
        return sum_stages(
            self.request.model,
            self.request.batch_size,
            self.options.costing,
            self.optimizer,
            self.with_loss,
            self.stage_of_layer,
        )

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

    def memory_request(self) -> MemoryRequest:
        """Return what the memory of the replica depends on."""
        pipeline = self.request.pipeline
        return MemoryRequest(
            model=self.request.model,
            batch=self.request.batch_size,
            options=self.options,
            optimizer=self.optimizer,
            with_loss=self.with_loss,
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
            pipelined=self.pipelined,
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
            streamed += sum(parts_us(infeed, clock_hz, values["sigma"]))
            infeed = Cycles()
        if not self.with_loss:
            streamed += outfeed_us(self._result_bytes(), rate, values)
        inputs = StepInputs(
            stages=self.stages,
            infeed=infeed,
            recomputed=self._recomputed(),
            infeed_us=streamed,
            overlapped=self.options.io_tiles > 0,
            accumulates=self.accumulates,
            accumulation=self.micro_batches,
            steps_per_execution=self.steps_per_execution,
            replicas=self.replicas,
            sum_buffer_bytes=self.options.sum_buffer_bytes,
            training=self.request.training,
            clock_hz=clock_hz,
            constants=values,
        )
        pipeline = self.request.pipeline
        if pipeline is None:
            return time_plain(inputs)
        return time_pipeline(
            inputs,
            pipeline,
            self.mapping,
            self.boundaries,
            self.options.selection_order,
            self._offload_us(),
        )

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
            return (*again, Cycles())
        return (
            recomputed_forward(
                self.request.model,
                self.request.batch_size,
                self.options.costing,
                self.optimizer,
                self.with_loss,
            ),
        )

    def _offload_us(self) -> tuple[float, ...]:
        """Return the time of one transfer of each stage's stash to streaming memory."""
        pipeline = self.request.pipeline
        if pipeline is None or not pipeline.offload_activations:
            return (0.0,) * len(self.mapping)
        tensors = stage_tensors(
            self.request.model,
            self.request.batch_size,
            self.options.costing,
            self.optimizer,
            self.with_loss,
            self.stage_of_layer,
            False,
        )
        sharing = min(self.system.ipus_per_machine, len(set(self.mapping)))
        rate = self.system.ipu.remote_gb_s / max(sharing, 1)
        return tuple(
            (own.input_bytes + own.mask_bytes if self.recomputes else own.kept_bytes)
            / (rate * 1e3)
            if depth
            else 0.0
            for own, depth in zip(tensors, self.fifo_depth, strict=True)
        )


def describe_replica(
    request: PlanRequest, table: HardwareTable, system: System, options: DeviceOptions
) -> tuple[Replica, tuple[Problem, ...]]:
    """Resolve a request; an unknown optimizer is a warning."""
    problems: tuple[Problem, ...] = ()
    name = request.optimizer.lower()
    name = _SPELLINGS.get(name, name)
    optimizer = table.optimizers.get(name)
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
    layers = len(request.model.stage_layers)
    stage_of_layer = pipeline.stage_of_layer if pipeline else (0,) * layers
    stages = pipeline.stages if pipeline else 1
    mapping = tuple(range(stages))
    depth = (0,) * stages
    steps = max(min(request.steps_per_execution, steps_per_replica(request)), 1)
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
        stage_of_layer=stage_of_layer,
        mapping=mapping,
        fifo_depth=depth,
        micro_batches=micro_batches,
        steps_per_execution=steps,
    )
    return replica, problems
