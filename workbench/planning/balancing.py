"""Balancing the pipeline of an experiment with the figures of its plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import NamedTuple

from ipu_runtime.plan.balance.partition import (
    BalanceRequest,
    BalanceResult,
    Objective,
    balance,
    evaluate,
)
from ipu_runtime.plan.costs.links import physical_order, transfer_us
from ipu_runtime.plan.plan import LayerPlan, Plan, StagePlan
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind
from ipu_runtime.plan.schedule.timeline import Clock
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.planning.experiment_plan import plan_experiment
from workbench.planning.same_training import same_rate, training_changes
from workbench.planning.shared_layers import shared_spans
from workbench.planning.staged_spec import set_arguments, staged_spec

_TRIES = 7
"""Halvings of the capacity's range."""


@dataclass(frozen=True, slots=True)
class BalancedExperiment:
    """A balanced experiment: the partition, and what has to be set for it."""

    result: BalanceResult
    spec: ExperimentSpec
    """The experiment with the best stages; as it was when there are none."""
    plan: Plan
    """The plan of `spec`."""
    changes: tuple[str, ...]
    """Changes of fields, as `--set` takes them."""
    training: tuple[str, ...] = ()
    """What these change of the training, in words; empty if only its speed."""
    proven: bool = False
    """Whether no other cuts are better; memory that forbids some leaves it open."""


def balance_experiment(
    spec: ExperimentSpec, stages: int, objective: str = "time"
) -> BalanceResult:
    """Return the best partition of an experiment's layers into stages."""
    return balanced_experiment(spec, stages, objective).result


def balanced_experiment(
    spec: ExperimentSpec,
    stages: int,
    objective: str = "time",
    *,
    samples: int = 0,
    before: ExperimentSpec | None = None,
    tries: int = _TRIES,
) -> BalancedExperiment:
    """Balance an experiment, and plan what comes out of it.

    Balancing adds up layers; the plan knows more, for example tensors that two stages
    both keep. So the plan has the last word on what fits.

    Args:
        spec: The experiment; its own stages do not matter.
        stages: How many there shall be.
        objective: What there should be least of.
        samples: Samples of a weight update; 0 lets the micro-batch stay.
        before: Whose effective learning rate is kept, if not that of `spec`.
        tries: Who balances hundreds of experiments asks for fewer, and gets no fixes
            for what does not fit.
    """
    with_fixes = tries == _TRIES
    layers = [layer for layer in spec.model.layers if layer.kind != "Input"]
    count = len(layers)
    read = spec.model.read
    one_block = read is not None and read.one_block
    beyond = [at for at, stage in locked_stages(spec).items() if stage >= stages]
    problem = ""
    if one_block:
        problem = f"{spec.model.source} is a subclass of Model, which is one block"
    elif not 1 < stages <= count:
        problem = f"{count} layers can be cut into 2 to {count} stages, not {stages}"
    elif beyond:
        where = f"in stage {spec.pipeline.stages[beyond[-1]]} (pipeline.locked)"
        problem = f"{layers[beyond[-1]].name} is locked {where}, beyond {stages} stages"
    if problem:
        return _refused(spec, stages, problem, plan_experiment(spec))
    uniform = tuple(position * stages // count for position in range(count))
    before = before or spec

    def staged_as(cuts: tuple[int, ...]) -> ExperimentSpec:
        return same_rate(before, staged_spec(spec, cuts, samples))

    plan = plan_experiment(staged_as(uniform), with_remedies=with_fixes)
    if not plan.layers:
        errors = [item for item in plan.problems if item.severity is Severity.ERROR]
        problem = "; ".join(str(item) for item in errors) or "it cannot be planned"
        return _refused(spec, stages, problem, plan)
    request = balance_request(spec, plan, stages, Objective(objective))
    result, staged, planned, free = _fitting(spec, staged_as, request, tries)
    if not result.feasible:
        return BalancedExperiment(result, spec, planned, ())
    return BalancedExperiment(
        result,
        staged,
        planned,
        set_arguments(spec, staged),
        training_changes(before, staged),
        free and result.exact,
    )


def _refused(
    spec: ExperimentSpec, stages: int, problem: str, plan: Plan
) -> BalancedExperiment:
    empty = BalanceRequest((), (), stages, 1)
    failed = BalanceResult(empty, None, problem=problem)
    return BalancedExperiment(failed, spec, plan, ())


def locked_stages(spec: ExperimentSpec) -> dict[int, int]:
    """Return the stage of locked layers, by their place without inputs."""
    layers = (layer for layer in spec.model.layers if layer.kind != "Input")
    return {
        at: stage
        for at, (layer, stage) in enumerate(
            zip(layers, spec.pipeline.stages, strict=False)
        )
        if layer.name in spec.pipeline.locked
    }


def _fitting(
    spec: ExperimentSpec,
    staged_as: Callable[[tuple[int, ...]], ExperimentSpec],
    request: BalanceRequest,
    tries: int,
) -> tuple[BalanceResult, ExperimentSpec, Plan, bool]:
    """Return the best result that fits by the plan, or why there is none.

    The capacity that sums of layers may reach is searched between the smallest peak
    that any partition has and the peak of the best partition. The last value tells
    whether memory forbade nothing.
    """

    with_fixes = tries == _TRIES

    def tried(room: float | None) -> tuple[BalanceResult, ExperimentSpec, Plan]:
        result = balance(replace(request, capacity_bytes=room))
        staged = staged_as(result.stage_of_layer)
        return result, staged, plan_experiment(staged, with_remedies=with_fixes)

    free = balance(replace(request, capacity_bytes=None))
    if free.best is None:
        return free, spec, plan_experiment(spec), True
    estimate = request.capacity_bytes or 0.0
    wide = tried(max(free.best.peak_bytes, estimate))
    if _fits(wide[2]):
        return *wide, True
    smallest = balance(
        replace(request, capacity_bytes=None, objective=Objective.PEAK_MEMORY)
    )
    assert smallest.best is not None
    low, high = smallest.best.peak_bytes, free.best.peak_bytes
    found = tried(low)
    if not _fits(found[2]):
        if not with_fixes:
            return replace(smallest, best=None), found[1], found[2], False
        # The fixes are judged by what the least demanding partition lacks.
        excess = max(memory.excess_bytes for memory in found[2].memory)
        nothing = balance(replace(request, capacity_bytes=low - max(excess, 1)))
        return nothing, found[1], found[2], False
    for _ in range(tries):
        middle = (low + high) / 2
        attempt = tried(middle)
        if _fits(attempt[2]):
            low, found = middle, attempt
        else:
            high = middle
    return *found, False


def _fits(plan: Plan) -> bool:
    return all(memory.fits for memory in plan.memory)


def balance_request(
    spec: ExperimentSpec, plan: Plan, stages: int, objective: Objective
) -> BalanceRequest:
    """Describe the layers of a plan; the first one also takes the infeed."""
    layers, fetched = plan.layers, _fetched_times(plan)
    forward, backward, again = (
        [own + waited for own, waited in zip(times, waits, strict=True)]
        for times, waits in (
            ([layer.forward_us for layer in layers], fetched.forward_us),
            ([layer.backward_us for layer in layers], fetched.backward_us),
            ([layer.forward_us for layer in layers], fetched.again_us),
        )
    )
    early = [
        time for layer, time in zip(layers, forward, strict=True) if not layer.stage
    ]
    forward[0] += max(0.0, plan.stages[0].forward_us - sum(early))
    pipeline = plan.request.pipeline
    mode = pipeline.recomputation if pipeline else Recomputation.OFF
    kind = ScheduleKind(spec.pipeline.schedule)
    now = spec.pipeline.stages
    usable = len(now) == len(layers) and max(now, default=-1) + 1 == stages
    # Fixes may ask for four times as many stages.
    places = physical_order("AUTO", 4 << stages.bit_length(), True)

    def copy_us(size: float, stage: int) -> float:
        """Activations go there, and their gradients come back."""
        ends = places[stage - 1], places[stage]
        return 2 * transfer_us(int(size), *ends, plan.constants)

    request = BalanceRequest(
        forward_us=tuple(forward),
        backward_us=tuple(backward),
        stages=stages,
        micro_batches=plan.request.gradient_accumulation,
        schedule=kind,
        recomputation=mode,
        recompute_us=tuple(again),
        resident_bytes=tuple(layer.resident_bytes for layer in layers),
        stash_bytes=tuple(layer.stash_bytes for layer in layers),
        working_bytes=tuple(layer.working_bytes for layer in layers),
        crossing_bytes=tuple(layer.crossing_bytes for layer in layers),
        input_bytes=float(layers[0].crossing_bytes),
        copy_us=copy_us,
        objective=objective,
        clock=Clock.STEP,
        offload_activations=spec.pipeline.offload_activations,
        locked=locked_stages(spec),
        current=now if usable else (),
        together=shared_spans(spec),
    )
    return _with_room(request, plan)


def _with_room(request: BalanceRequest, plan: Plan) -> BalanceRequest:
    """Set fixed bytes and capacity so that sums of layers agree with the plan."""
    uniform = evaluate(request, tuple(layer.stage for layer in plan.layers))
    if uniform is None or not plan.memory:
        return request
    used = [memory.used_bytes for memory in plan.memory]
    sums = uniform.stage_bytes
    lacking = [have - own for have, own in zip(used, sums, strict=False)]
    # Tiles fill unevenly, so an IPU is full before all its memory is used.
    evenness = min(
        (memory.used_bytes / memory.capacity_bytes) / max(memory.memory_fraction, 1e-9)
        for memory in plan.memory
    )
    return replace(
        request,
        fixed_bytes=median(lacking),
        capacity_bytes=plan.memory[0].capacity_bytes * min(evenness, 1.0),
    )


class _FetchedTimes(NamedTuple):
    """Times of every layer on one micro-batch."""

    forward_us: tuple[float, ...]
    backward_us: tuple[float, ...]
    again_us: tuple[float, ...]


def _fetched_times(plan: Plan) -> _FetchedTimes:
    """Share out among layers what their stages wait for, by bytes."""
    layers, pipeline = plan.layers, plan.request.pipeline
    if pipeline is None:
        return _FetchedTimes(*[(0.0,) * len(layers)] * 3)
    waiting = {stage.index for stage in plan.stages if stage.fifo_depth}
    kept = [
        layer.stash_bytes * (pipeline.offload_activations and layer.stage in waiting)
        for layer in layers
    ]
    weights = [layer.parameters * pipeline.shard_weights for layer in layers]
    sums = [layer.parameters * pipeline.offload_accumulators for layer in layers]
    forward = [sum(sizes) for sizes in zip(kept, weights, strict=True)]
    backward = [sum(sizes) for sizes in zip(forward, sums, strict=True)]
    every = plan.stages
    backward_us = _shared_out(plan, every, backward, _backward_us, _backward_us)
    # In its forward pass the first stage also waits for the host.
    forward_us = _shared_out(plan, every[1:], forward, _forward_us, _forward_us)
    if plan.request.training and not pipeline.offload_accumulators:
        forward_us = backward_us
    return _FetchedTimes(
        forward_us,
        backward_us,
        _shared_out(plan, every, weights, lambda own: own.recompute_us, _forward_us),
    )


def _forward_us(item: StagePlan | LayerPlan) -> float:
    return item.forward_us


def _backward_us(item: StagePlan | LayerPlan) -> float:
    return item.backward_us


def _shared_out(
    plan: Plan,
    among: Sequence[StagePlan],
    moved: Sequence[int],
    stage_us: Callable[[StagePlan], float],
    layer_us: Callable[[LayerPlan], float],
) -> tuple[float, ...]:
    stages = {stage.index for stage in among if stage_us(stage)}
    waited = sum(map(stage_us, among))
    size = 0
    for layer, own in zip(plan.layers, moved, strict=True):
        if layer.stage in stages:
            waited, size = waited - layer_us(layer), size + own
    rate = waited / size if size else 0.0
    return tuple(rate * own for own in moved)
