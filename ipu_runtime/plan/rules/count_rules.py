"""Rules for counts: IPUs, micro-batches per update and steps per execution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.request import PipelineRequest, PlanRequest
from ipu_runtime.plan.rules.pipeline_rules import check_count, has_io_tiles
from ipu_runtime.plan.rules.replica_counts import (
    ipus_per_replica,
    replica_count,
    shard_count,
    steps_per_replica,
)
from ipu_runtime.plan.schedule.building import overlap_length

ESTIMATORS = ("ipu_estimator", "ipu_pipeline_estimator")
"""Interfaces whose executions are `iterations_per_loop` long, and have no epochs."""
_IPUS = "ipu.auto_select_ipus"
ACCUMULATION = "execution.gradient_accumulation"
STEPS = "execution.steps_per_execution"
EPOCH = "train.steps_per_epoch"
_LARGEST_SEARCH = 1_000_000
_MOST_MICRO_BATCHES = 10_000_000
"""More would take gigabytes and minutes to model, and no program has them."""


def no_power_of_two(ipus: int, system_ipus: int) -> Problem:
    """Say that no device has so many IPUs."""
    below = 1 << (ipus.bit_length() - 1)
    return Problem(
        _IPUS,
        f"no device has {ipus} IPUs",
        f"devices have a power of two: {below} or {2 * below}",
        exception="InvalidArgumentError",
        suggestion=2 * below if 2 * below <= system_ipus else below,
    )


def check_ipus(request: PlanRequest, system_ipus: int) -> Iterator[Problem]:
    """Yield what is wrong with the number of IPUs."""
    where = _IPUS
    ipus, needed = request.ipus, ipus_per_replica(request.pipeline)
    if ipus < 1:
        yield Problem(where, f"{ipus} IPUs are no device", "1, 2, 4, ...", suggestion=1)
    elif ipus & (ipus - 1):
        yield no_power_of_two(ipus, system_ipus)
    if ipus > system_ipus:
        yield Problem(
            where,
            f"{request.system} has {system_ipus} IPUs, not {ipus}",
            f"at most {system_ipus}, or a larger execution.system",
            exception="InvalidArgumentError",
            suggestion=1 << (system_ipus.bit_length() - 1),
        )
    if 0 < ipus < shard_count(request.pipeline):
        yield Problem(
            where,
            f"current device has {ipus} IPUs attached, however the current model "
            f"requires a multiple of {needed} IPUs",
            f"{needed} or a multiple of it",
            suggestion=needed,
        )
    idle = needed - shard_count(request.pipeline)
    if idle and needed <= ipus:
        yield Problem(
            where,
            f"a replica reserves {needed} IPUs and leaves {idle} of them without a "
            "stage",
            f"{needed} stages would use them all",
            Severity.WARNING,
            exception="",
        )


def check_micro_batches(request: PlanRequest) -> Iterator[Problem]:
    """Yield what is wrong with the count of micro-batches of one pipeline run."""
    pipeline = request.pipeline
    # Evaluation and prediction run one pipeline per execution.
    field = ACCUMULATION if request.training else STEPS
    count = micro_batches(request)
    if too_many_micro_batches(request):
        text = f"{count:,} micro-batches of one pipeline run are too many to model"
        hint = f"at most {_MOST_MICRO_BATCHES:,}"
        yield Problem(field, text, hint, suggestion=_MOST_MICRO_BATCHES)
        return
    if pipeline is None or not pipeline.schedule.on_ipu:
        return
    if not 2 <= pipeline.stages <= len(pipeline.stage_of_layer):
        return
    yield from check_count(
        pipeline.schedule,
        _mapping(pipeline),
        count,
        training=request.training,
        io_tiles=has_io_tiles(request.config),
        where=field,
        most=None if request.training else steps_per_replica(request),
    )


def _mapping(pipeline: PipelineRequest) -> tuple[int, ...]:
    """Return the IPU of every stage; of every layer if stages are out of range."""
    mapping, stages = pipeline.device_mapping, pipeline.stages
    if len(mapping) == stages:
        return mapping
    return tuple(range(max(min(stages, len(pipeline.stage_of_layer)), 1)))


def micro_batches(request: PlanRequest) -> int:
    """Return the micro-batches of one pipeline run.

    Those of an evaluation are the steps of its execution, which an epoch bounds.
    """
    if request.training:
        return request.gradient_accumulation
    return min(request.steps_per_execution, steps_per_replica(request) or 1)


def too_many_micro_batches(request: PlanRequest) -> bool:
    """Tell whether a pipeline run is too long to be modelled."""
    return request.pipeline is not None and micro_batches(request) > _MOST_MICRO_BATCHES


def check_steps(request: PlanRequest) -> Iterator[Problem]:
    """Yield what is wrong with the steps of an execution and of an epoch.

    In the order in which Keras on the device finds it: the data, the epoch, updates.
    """
    if request.gradient_accumulation < 1:
        yield Problem(
            ACCUMULATION,
            f"{request.gradient_accumulation} is not a positive whole number",
            "1 or more",
            suggestion=1,
        )
    replicas, steps = replica_count(request), steps_per_replica(request)
    per_execution = request.steps_per_execution
    every = max(request.gradient_accumulation, 1) if request.training else 1
    if per_execution < 1:
        yield Problem(
            STEPS,
            f"{per_execution} is not a positive whole number",
            "1 or more",
            suggestion=every,
        )
        return
    if replicas:
        yield from _check_epoch(request, replicas, steps, every)
    if request.api in ESTIMATORS:
        yield from check_updates(per_execution, every)
    elif per_execution % every:
        yield _partial_update(request, per_execution, steps, every)
    elif 0 < steps < per_execution and steps % every:
        yield _partial_update(request, steps, steps, every)


def _check_epoch(
    request: PlanRequest, replicas: int, steps: int, every: int
) -> Iterator[Problem]:
    batches, per_execution = max(request.batches, 0), request.steps_per_execution
    if not steps:
        yield Problem(
            "data.batch_size",
            f"the data contains {batches} items, but all {replicas} replicas are "
            "requested to take at least one batch each",
            "more data, smaller batches or fewer IPUs",
        )
        return
    if batches % replicas:
        yield Problem(
            EPOCH,
            f"{batches % replicas} of {batches} batches are dropped: "
            f"{replicas} replicas take the same number",
            f"a multiple of {replicas}",
            Severity.WARNING,
            exception="",
            suggestion=batches // replicas * replicas,
        )
    if request.api in ESTIMATORS:
        yield from check_loops(steps, per_execution)
    elif per_execution > steps:
        yield Problem(
            STEPS,
            f"{per_execution} is more than the {steps} steps of an epoch, and is "
            f"lowered to {steps}",
            f"{steps} or a divisor of it",
            Severity.WARNING,
            exception="",
            suggestion=steps,
        )
    elif steps % per_execution:
        valid = _valid_steps(request, steps, every)
        yield Problem(
            STEPS,
            f"`steps_per_execution` ({per_execution}) must be a divisor of the number "
            f"of batches ({steps}) in the dataset provided"
            + (" to this replica" if replicas > 1 else ""),
            _try(valid, per_execution) if valid else "",
            suggestion=_nearest(valid, per_execution) if valid else None,
        )


def check_loops(steps: int, loop: int) -> Iterator[Problem]:
    """Yield a problem if the steps of an estimator's call are not whole loops.

    Args:
        steps: `steps` of `train` or `evaluate`, of each replica.
        loop: `iterations_per_loop`.
    """
    if steps <= 0:
        text = f"steps is {steps}; it must be at least 1"
        yield Problem(EPOCH, text, suggestion=loop)
    elif steps % loop:
        valid = _divisors(steps)
        yield Problem(
            STEPS,
            f"steps ({steps}) must be a multiple of iterations_per_loop ({loop})",
            f"{_try(valid, loop)} for iterations_per_loop, or {_multiple(steps, loop)} "
            "steps",
            suggestion=_nearest(valid, loop),
        )


def check_updates(loop: int, count: int) -> Iterator[Problem]:
    """Yield a problem if an estimator's loop ends inside of a weight update."""
    if loop % count:
        nearest = _multiple(loop, count)
        yield Problem(
            STEPS,
            f"iterations_per_loop ({loop}) must be a multiple of "
            f"gradient_accumulation_count ({count})",
            f"try {nearest}",
            suggestion=nearest,
        )


def _multiple(number: int, of: int) -> int:
    """Return the multiple that is nearest to a number, not 0."""
    return max(1, round(number / of)) * of


def _partial_update(
    request: PlanRequest, value: int, steps: int, every: int
) -> Problem:
    """Say that an execution would end inside of a weight update."""
    valid = _valid_steps(request, steps, every)
    none = f"an epoch of {steps} steps does not end with a weight update either"
    return Problem(
        STEPS,
        # The figures first: tables cut what is long.
        f"`steps_per_execution` (set to {value}) is not divisible by "
        f"`gradient_accumulation_steps_per_replica` (set to {every}), and the "
        f"{'pipelined ' if request.pipeline else ''}model has been configured to use "
        "gradient accumulation for training",
        _try(valid, value) if valid else none,
        exception="RuntimeError",
        suggestion=_nearest(valid, value) if valid else None,
    )


def _valid_steps(request: PlanRequest, steps: int, every: int) -> list[int]:
    """Return the divisors of an epoch's steps that hold whole weight updates.

    Those of an evaluation in a pipeline are also whole turns of its stages.
    """
    pipeline = request.pipeline
    if pipeline and not request.training and not has_io_tiles(request.config):
        every = overlap_length(pipeline.schedule, _mapping(pipeline), training=False)
    if steps % every or not steps:
        return []
    return [every * number for number in _divisors(steps // every)]


def _divisors(whole: int) -> list[int]:
    small = [
        number
        for number in range(1, min(int(whole**0.5), _LARGEST_SEARCH) + 1)
        if whole % number == 0
    ]
    return sorted({*small, *(whole // number for number in small)})


def _nearest(choices: Iterable[int], value: int) -> int:
    return min(choices, key=lambda number: (abs(number - value), number))


def _try(choices: list[int], value: int) -> str:
    near = sorted(sorted(choices, key=lambda number: abs(number - value))[:3])
    return f"try {_listed(near)}"


def _listed(numbers: list[int]) -> str:
    *first, last = (str(number) for number in numbers)
    return f"{', '.join(first)} or {last}" if first else last
