"""Rules for counts: IPUs, micro-batches per update and steps per execution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from numbers import Integral
from typing import Any

from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.request import PipelineRequest, PlanRequest
from ipu_runtime.plan.rules.pipeline_rules import (
    MOST_MICRO_BATCHES,
    allowed_counts,
    check_count,
    check_length,
    has_io_tiles,
)
from ipu_runtime.plan.rules.replica_counts import (
    replica_count,
    reserved_ipus,
    shard_count,
    steps_per_replica,
)

ESTIMATORS = ("ipu_estimator", "ipu_pipeline_estimator")
"""Interfaces whose executions are `iterations_per_loop` long, and have no epochs."""
IPUS, BATCH_SIZE = "ipu.auto_select_ipus", "data.batch_size"
ACCUMULATION = "execution.gradient_accumulation"
STEPS = "execution.steps_per_execution"
EPOCH = "train.steps_per_epoch"
_KERAS_COUNT = "gradient_accumulation_steps_per_replica"
_COUNT_ARGUMENTS = {
    "ipu_estimator": "num_mini_batches",
    "ipu_pipeline_estimator": "gradient_accumulation_count",
}
"""Where a script says how many mini-batches an update takes, if not by Keras."""
_LARGEST_SEARCH = 1_000_000


def check_positive(name: str, value: Any, where: str) -> Iterator[Problem]:
    """Yield a problem if a count is not a whole number from 1 on.

    Args:
        name: The argument, as a script writes it.
        value: What it was given.
        where: The field that an experiment has for it.
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < 1:
        yield Problem(
            where,
            f"expected `{name}` to be a positive integer, but received {value!r}",
            suggestion=1,
        )


def check_device(ipus: int, system: str, system_ipus: int) -> Iterator[Problem]:
    """Yield a problem if no device of a system has so many IPUs.

    Args:
        ipus: What is asked for.
        system: Name of the system.
        system_ipus: IPUs that it has.
    """
    if ipus < 1:
        yield Problem(
            IPUS,
            f"no device has {ipus} IPUs",
            "devices have a power of two: 1, 2, 4, ...",
            exception="InvalidArgumentError",
            suggestion=1,
        )
    elif ipus & (ipus - 1):
        below = reserved_ipus(ipus) // 2
        yield Problem(
            IPUS,
            f"no device has {ipus} IPUs",
            f"devices have a power of two: {below} or {2 * below}",
            exception="InvalidArgumentError",
            suggestion=2 * below if 2 * below <= system_ipus else below,
        )
    if ipus > system_ipus:
        yield Problem(
            IPUS,
            f"{system} has {system_ipus} IPUs, not {ipus}",
            f"at most {system_ipus}, or a larger system",
            exception="InvalidArgumentError",
            suggestion=1 << (system_ipus.bit_length() - 1),
        )


def check_attached(ipus: int, shards: int) -> Iterator[Problem]:
    """Yield a problem if a device has too few IPUs for one replica of a program."""
    if 0 < ipus < shards:
        needed = reserved_ipus(shards)
        yield Problem(
            IPUS,
            f"current device has {ipus} IPUs attached, however the current model "
            f"requires a multiple of {needed} IPUs",
            f"{needed} or a multiple of it",
            suggestion=needed,
        )


def check_ipus(request: PlanRequest, system_ipus: int) -> Iterator[Problem]:
    """Yield what is wrong with the number of IPUs."""
    ipus, shards = request.ipus, shard_count(request.pipeline)
    yield from check_device(ipus, request.system, system_ipus)
    yield from check_attached(ipus, shards)
    needed = reserved_ipus(shards)
    if needed > shards and needed <= ipus:
        yield Problem(
            IPUS,
            f"a replica reserves {needed} IPUs and leaves {needed - shards} of them "
            "without a stage",
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
    if pipeline is None:
        return
    yield from check_length(count, field)
    if not pipeline.schedule.on_ipu or count > MOST_MICRO_BATCHES:
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
        among=None if request.training else _divisors(steps_per_replica(request)),
    )


def _mapping(pipeline: PipelineRequest) -> tuple[int, ...]:
    """Return the IPU of every stage; of every layer if stages are out of range."""
    mapping, stages = pipeline.device_mapping, pipeline.stages
    if mapping and len(mapping) == stages:
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
    return request.pipeline is not None and micro_batches(request) > MOST_MICRO_BATCHES


def check_accumulation(request: PlanRequest) -> Iterator[Problem]:
    """Yield a problem if a weight update has no mini-batches."""
    name = _COUNT_ARGUMENTS.get(request.api, _KERAS_COUNT)
    for problem in check_positive(name, request.gradient_accumulation, ACCUMULATION):
        yield replace(problem, suggestion=_allowed_micro_batches(request).start)


def _allowed_micro_batches(request: PlanRequest) -> range:
    """Return the micro-batches that a run may have, pipelined or not."""
    pipeline = request.pipeline
    if pipeline is None or not pipeline.schedule.on_ipu:
        return range(1, MOST_MICRO_BATCHES + 1)
    return allowed_counts(
        pipeline.schedule,
        _mapping(pipeline),
        training=request.training,
        io_tiles=has_io_tiles(request.config),
    )


def check_steps(request: PlanRequest) -> Iterator[Problem]:
    """Yield what is wrong with the steps of an execution and of an epoch.

    In the order in which Keras on the device finds it: the data, the epoch, updates.
    """
    replicas, steps = replica_count(request), steps_per_replica(request)
    per_execution = request.steps_per_execution
    every = max(request.gradient_accumulation, 1) if request.training else 1
    name = "iterations_per_loop" if request.api in ESTIMATORS else "steps_per_execution"
    for problem in check_positive(name, per_execution, STEPS):
        yield replace(problem, suggestion=every)
        return
    if replicas:
        yield from _check_epoch(request, replicas, steps, every)
    if request.api in ESTIMATORS:
        # The model function says it, after the call has been looked at.
        yield from check_accumulation(request)
        problems = check_updates(per_execution, every)
        yield from _suggesting_steps(problems, request, steps, every)
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
            BATCH_SIZE,
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
        problems = check_loops(steps, per_execution)
        yield from _suggesting_steps(problems, request, steps, every)
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


def _suggesting_steps(
    problems: Iterable[Problem], request: PlanRequest, steps: int, every: int
) -> Iterator[Problem]:
    """Suggest the nearest steps that break no rule at all, as one key takes them."""
    valid = _valid_steps(request, steps, every)
    nearest = _nearest(valid, request.steps_per_execution) if valid else None
    for problem in problems:
        at_steps = problem.where == STEPS
        yield replace(problem, suggestion=nearest) if at_steps else problem


def check_loops(steps: int, loop: int) -> Iterator[Problem]:
    """Yield a problem if the steps of an estimator's call are not whole loops.

    Args:
        steps: `steps` of `train` or `evaluate`, of each replica.
        loop: `iterations_per_loop`.
    """
    yield from check_positive("steps", steps, EPOCH)
    if steps > 0 and steps % loop:
        valid = _divisors(steps)
        yield Problem(
            STEPS,
            f"steps ({steps}) must be a multiple of iterations_per_loop ({loop})",
            f"{_try(valid, loop)} for iterations_per_loop, or {_multiple(steps, loop)} "
            "steps",
            suggestion=_nearest(valid, loop),
        )


def check_updates(loop: int, count: int) -> Iterator[Problem]:
    """Yield a problem if a loop ends inside of a weight update.

    Args:
        loop: Iterations: `iterations_per_loop` of an estimator.
        count: Mini-batches of an update.
    """
    if loop % count:
        nearest = _multiple(loop, count)
        yield Problem(
            STEPS,
            f"the iterations of a loop ({loop}) must be a multiple of "
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

    Those of an evaluation in a pipeline are also valid counts of its micro-batches.
    """
    allowed = range(every, steps + 1, every)
    if not request.training:
        allowed = _allowed_micro_batches(request)
    # No update ends with an epoch of other steps.
    if steps % every:
        return []
    return [number for number in _divisors(steps) if number in allowed]


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
