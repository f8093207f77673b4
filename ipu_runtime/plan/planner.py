"""From a request to a plan: times, memory and problems."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ipu_runtime.plan.device_options import read_config
from ipu_runtime.plan.hardware import (
    HardwareFileError,
    HardwareTable,
    System,
    load_table,
)
from ipu_runtime.plan.layer_plans import on_tiles, plan_layers
from ipu_runtime.plan.memory.memory_plan import MemoryPlan, plan_memory
from ipu_runtime.plan.memory.memory_problems import memory_problems
from ipu_runtime.plan.memory.memory_walk import MemoryWalk, walk_stages
from ipu_runtime.plan.memory.remedies import find_remedies
from ipu_runtime.plan.plan import LayerPlan, Plan, StagePlan
from ipu_runtime.plan.problem import Problem, Severity, deciding_first
from ipu_runtime.plan.replica import Replica, describe_replica
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.count_rules import too_many_micro_batches
from ipu_runtime.plan.rules.replica_counts import replica_count, steps_per_replica
from ipu_runtime.plan.rules.request_checks import check_request
from ipu_runtime.plan.rules.stage_rules import check_shared_weights
from ipu_runtime.plan.step_time import Timing


def make_plan(
    request: PlanRequest,
    *,
    with_remedies: bool = True,
    with_layers: bool = True,
    table: HardwareTable | None = None,
) -> Plan:
    """Plan a request; whatever is wrong with it is among the plan's problems.

    Remedies for what does not fit are plans of their own; who plans thousands of
    requests does without. So does a remedy, without the table of its layers too.
    Another table than that of the request answers what if the hardware were different.
    """
    try:
        table = table or load_table(request.hardware_file)
    except HardwareFileError as error:
        return Plan(request, (Problem("hardware", str(error)),))
    problems = list(check_request(request, table))
    system = table.system(request.system)
    if system is None or not _can_be_planned(request, problems):
        return Plan(request, deciding_first(problems))
    replica, unclear = replica_of(request, table, system)
    problems += unclear
    timing = replica.time()
    memory = plan_memory(replica.memory_request(), table)
    problems += [*replica.feed_problems(timing), *_io_problems(replica, memory)]
    remedies = find_remedies(request, memory.ipus, system.ipus) if with_remedies else ()
    alone = functools.partial(
        make_plan, with_remedies=False, with_layers=False, table=table
    )
    problems += memory_problems(memory.ipus, remedies, alone, request)
    steps, execution = steps_per_replica(request), replica.steps_per_execution
    local = replica.replicas // request.instances
    return Plan(
        request=request,
        problems=deciding_first(problems),
        replicas=replica.replicas,
        ipus=replica.replicas * replica.ipus_per_replica,
        ipus_per_replica=replica.ipus_per_replica,
        layers=_layer_table(request, replica) if with_layers else (),
        stages=_stage_plans(request, replica, timing, memory),
        memory=memory.ipus,
        step=timing.step,
        steps_per_epoch=steps,
        steps_per_execution=execution,
        executions_per_epoch=1 if request.steady else steps // execution,
        updates_per_epoch=steps // request.gradient_accumulation
        if request.training
        else 0,
        batches_dropped=request.batches - steps * replica.replicas,
        compile_s=_compile_s(replica, memory),
        copy_us=timing.copy_us,
        run_us=timing.run_us,
        update_us=timing.whole_update_us,
        all_reduce_us=timing.all_reduce_us,
        hosts=replica.hosts,
        ipus_per_instance=local * replica.ipus_per_replica,
        feed_us=replica.feed_us,
        broadcast_us=replica.broadcast_us,
        constants=table.values,
    )


def walk_memory(plan: Plan) -> tuple[MemoryWalk, ...]:
    """Return the memory of every IPU over the steps of its program.

    For who wants more of a plan than its figures: the maximum of a walk is the sum over
    tiles of the plan. A plan of another table than its request's has no walk.
    """
    request = plan.request
    if not plan.memory:
        return ()
    table = load_table(request.hardware_file)
    system = table.system(request.system)
    assert system is not None
    replica, _ = replica_of(request, table, system)
    scale = table.values["live_scale"]
    return walk_stages(replica.memory_request(), plan.memory, scale)


def replica_of(
    request: PlanRequest, table: HardwareTable, system: System
) -> tuple[Replica, list[Problem]]:
    """Resolve a request, and tell what of it is not known."""
    half = request.model.dtype == "float16"
    options, unread = read_config(request.config, system, table, half, request.training)
    replica, unknown = describe_replica(_ordered(request), table, system, options)
    return replica, [*unread, *unknown]


def _ordered(request: PlanRequest) -> PlanRequest:
    """Return the request with its layers in the order that the graph decides.

    A preset and Keras list branches differently, and the fullest moment of a walk
    depends on the order.
    """
    model, pipeline = request.model, request.pipeline
    if model.ordered is model:
        return request
    if pipeline is not None:
        stages = tuple(pipeline.stage_of_layer[at] for at in model.order)
        pipeline = replace(pipeline, stage_of_layer=stages)
    return replace(request, model=model.ordered, pipeline=pipeline)


def _can_be_planned(request: PlanRequest, problems: Sequence[Problem]) -> bool:
    """Tell whether figures make sense in spite of the problems."""
    if request.batch_size < 1 or request.gradient_accumulation < 1:
        return False
    if not request.model.stage_layers or replica_count(request) < 1:
        return False
    if too_many_micro_batches(request):
        return False
    # Weights that two IPUs would share leave a schedule to time, other errors do not:
    # `balance` starts from such cuts.
    shared = list(check_shared_weights(request))
    return not any(
        problem.severity is Severity.ERROR
        and problem.where.startswith("pipeline")
        and problem not in shared
        for problem in problems
    )


def _layer_table(request: PlanRequest, replica: Replica) -> tuple[LayerPlan, ...]:
    layers = plan_layers(
        replica.work._replace(model=request.model),
        request.stage_of_layer,
        request.label_values,
        replica.accumulates,
        replica.options.ipu.clock_hz,
        replica.table,
    )
    return on_tiles(layers, request.model, replica.residency, replica.accumulates)


def _stage_plans(
    request: PlanRequest, replica: Replica, timing: Timing, memory: MemoryPlan
) -> tuple[StagePlan, ...]:
    names: list[list[str]] = [[] for _ in replica.mapping]
    layers = request.model.stage_layers
    for layer, stage in zip(layers, request.stage_of_layer, strict=True):
        names[stage].append(layer.name)
    return tuple(
        StagePlan(
            index=stage,
            ipu=ipu,
            layers=tuple(names[stage]),
            forward_us=timing.forward_us[stage],
            backward_us=timing.backward_us[stage],
            recompute_us=timing.recompute_us[stage],
            update_us=timing.update_us[stage],
            fifo_depth=replica.fifo_depth[stage],
            stash_bytes=memory.stash_bytes[stage] * replica.fifo_depth[stage],
        )
        for stage, ipu in enumerate(replica.mapping)
    )


def _compile_s(replica: Replica, memory: MemoryPlan) -> float:
    """Return the modelled compilation time of the program of one replica."""
    values = replica.table.values
    plans = sum(code.plans for code in memory.code)
    supersteps = sum(code.supersteps for code in memory.code)
    supersteps += int(values["loop_supersteps"])
    time = values["compile_s"] + values["compile_s_per_plan"] * plans
    time += values["compile_s_per_superstep"] * supersteps
    return time * compile_share(len(memory.ipus), values)


def compile_share(ipus: int, values: Mapping[str, float]) -> float:
    """Return how much longer programs of several IPUs compile."""
    if ipus == 1:
        return 1.0
    return values["compile_share_fixed"] + values["compile_share_per_ipu"] * ipus


def _io_problems(replica: Replica, memory: MemoryPlan) -> list[Problem]:
    """Warn of streams that reserved tiles cannot hold."""
    options = replica.options
    if not options.io_tiles:
        return []
    tile_room = options.ipu.tile_bytes * options.io_proportion
    room = options.io_tiles * tile_room
    problems = []
    for item in memory.ipus:
        streams = item.by_category["io"]
        if streams > room:
            enough = streams < tile_room * options.ipu.tiles
            needed = int(streams / tile_room) + 1 if enough else None
            share = "a larger ipu.io_tiles.available_memory_proportion"
            problems.append(
                Problem(
                    "ipu.io_tiles.num_io_tiles",
                    f"{options.io_tiles} tiles hold {room / 1e6:.1f} MB of streams, "
                    f"IPU {item.ipu} has {streams / 1e6:.1f} MB",
                    f"at least {needed}" if needed else share,
                    Severity.WARNING,
                    suggestion=needed,
                )
            )
    return problems
