"""Rules for counts: IPUs, micro-batches per update and steps per execution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ipu_runtime.plan.plan import PipelineRequest, PlanRequest
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.rules.replica_counts import (
    ipus_per_replica,
    replica_count,
    shard_count,
    steps_per_replica,
)
from ipu_runtime.plan.schedule.building import overlap_length
from ipu_runtime.plan.schedule.schedule import ScheduleKind

_IPUS = "ipu.auto_select_ipus"
ACCUMULATION = "execution.gradient_accumulation"
STEPS = "execution.steps_per_execution"
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
            f"the device has {ipus} IPUs, the pipeline needs a multiple of {needed}",
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
    if request.gradient_accumulation < 1:
        yield Problem(
            ACCUMULATION,
            f"{request.gradient_accumulation} is not a positive whole number",
            "1 or more",
            suggestion=1,
        )
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
    stages = pipeline.stages
    if not 2 <= stages <= len(pipeline.stage_of_layer):
        return
    mapping = pipeline.device_mapping
    if len(mapping) != stages:
        mapping = tuple(range(stages))
    overlap = overlap_length(pipeline.schedule, mapping, request.training)
    name = f"{pipeline.schedule.value} with {stages} stages"
    if overlaps_io(request, pipeline):
        if count < overlap + 2:
            yield _refused(
                field,
                f"{count} micro-batches are too few for {name} and I/O tiles",
                f"at least {overlap + 2}",
                overlap + 2,
            )
    elif count < 1 or count % overlap:
        below = max(count, 0) // overlap * overlap
        choices = [number for number in (below, below + overlap) if number > 0]
        yield _refused(
            field,
            f"{count} is not a multiple of {overlap}, the overlap of {name}",
            f"try {_listed(choices)}",
            min(choices, key=lambda number: (abs(number - count), -number)),
        )


def micro_batches(request: PlanRequest) -> int:
    """Return the micro-batches of one pipeline run."""
    training = request.training
    return request.gradient_accumulation if training else request.steps_per_execution


def too_many_micro_batches(request: PlanRequest) -> bool:
    """Tell whether a pipeline run is too long to be modelled."""
    return request.pipeline is not None and micro_batches(request) > _MOST_MICRO_BATCHES


def overlaps_io(request: PlanRequest, pipeline: PipelineRequest) -> bool:
    """Return whether tiles reserved for I/O change how Grouped runs."""
    tiles = request.config.get("io_tiles.num_io_tiles", 0)
    reserved = isinstance(tiles, int) and tiles > 0
    return reserved and pipeline.schedule is ScheduleKind.GROUPED


def check_steps(request: PlanRequest) -> Iterator[Problem]:
    """Yield what is wrong with the steps of an execution and of an epoch."""
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
    valid = _valid_steps(steps, every)
    if per_execution % every:
        yield Problem(
            STEPS,
            f"{per_execution} is not divisible by the {every} micro-batches of a weight"
            " update",
            _try(valid or [per_execution // every * every + every], per_execution),
            exception="RuntimeError",
            suggestion=_nearest(valid or [every], per_execution),
        )
    if not replicas:
        return
    if request.batches % replicas and steps:
        yield Problem(
            "train.steps_per_epoch",
            f"{request.batches % replicas} of {request.batches} batches are dropped: "
            f"{replicas} replicas take the same number",
            f"a multiple of {replicas}",
            Severity.WARNING,
            exception="",
            suggestion=request.batches // replicas * replicas,
        )
    if not steps:
        yield Problem(
            "data.batch_size",
            f"{max(request.batches, 0)} batches are not enough for {replicas} replicas",
            "more data, smaller batches or fewer IPUs",
        )
    elif per_execution > steps:
        yield from _lowered(steps, per_execution, every, valid)
    elif steps % per_execution:
        yield Problem(
            STEPS,
            f"{per_execution} does not divide the {steps} steps of an epoch"
            + (" on each replica" if replicas > 1 else ""),
            _try(valid, per_execution) if valid else "",
            suggestion=_nearest(valid, per_execution) if valid else None,
        )


def _lowered(
    steps: int, per_execution: int, every: int, valid: list[int]
) -> Iterator[Problem]:
    yield Problem(
        STEPS,
        f"{per_execution} is more than the {steps} steps of an epoch, and is lowered "
        f"to {steps}",
        f"{steps} or a divisor of it",
        Severity.WARNING,
        exception="",
        suggestion=steps,
    )
    if steps % every and per_execution % every == 0:
        yield Problem(
            STEPS,
            f"the {steps} steps of an epoch are not divisible by the {every} "
            "micro-batches of a weight update",
            _try(valid, steps) if valid else f"an epoch needs {every} steps or more",
            exception="RuntimeError",
            suggestion=_nearest(valid, steps) if valid else None,
        )


def _refused(where: str, problem: str, hint: str, suggestion: int) -> Problem:
    origins = (
        "the number comes from gradient_accumulation_count, "
        "gradient_accumulation_steps_per_replica or steps_per_execution"
    )
    return Problem(
        where,
        problem,
        f"{hint} ({origins})",
        exception="FailedPreconditionError",
        suggestion=suggestion,
    )


def _valid_steps(steps: int, every: int) -> list[int]:
    """Return the divisors of an epoch's steps that hold whole weight updates."""
    if steps % every or not steps:
        return []
    updates = steps // every
    small = [
        number
        for number in range(1, min(int(updates**0.5), _LARGEST_SEARCH) + 1)
        if updates % number == 0
    ]
    divisors = {*small, *(updates // number for number in small)}
    return sorted(every * number for number in divisors)


def _nearest(choices: Iterable[int], value: int) -> int:
    return min(choices, key=lambda number: (abs(number - value), number))


def _try(choices: list[int], value: int) -> str:
    near = sorted(sorted(choices, key=lambda number: abs(number - value))[:3])
    return f"try {_listed(near)}"


def _listed(numbers: list[int]) -> str:
    *first, last = (str(number) for number in numbers)
    return f"{', '.join(first)} or {last}" if first else last
