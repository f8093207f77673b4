"""Rules for one pipeline run, whatever its stages are: layers of a model or functions.

The plan of an experiment, `fit` of a pipelined model, `pipelining_ops.pipeline` and
the pipeline estimator all ask here, so that one setting has one verdict and one text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ipu_runtime.plan.problem import Problem
from ipu_runtime.plan.rules.replica_counts import reserved_ipus
from ipu_runtime.plan.schedule.building import overlap_length, recomputation_allowed
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind

MAPPING, STAGES = "pipeline.device_mapping", "pipeline.stages"
MOST_MICRO_BATCHES = 10_000_000
"""More would take gigabytes and minutes to model, and no program has them."""
_COUNT_ARGUMENTS = (
    "it is set by gradient_accumulation_count, "
    "gradient_accumulation_steps_per_replica or steps_per_execution"
)


def has_io_tiles(config: Mapping[str, Any]) -> bool:
    """Return whether tiles are reserved for I/O, which changes how Grouped runs."""
    tiles = config.get("io_tiles.num_io_tiles", 0)
    return isinstance(tiles, int) and tiles > 0


def check_stage_count(stages: int) -> Iterator[Problem]:
    """Yield a problem if there is nothing to hand on."""
    if stages < 2:
        yield Problem(
            STAGES,
            f"pipeline requires at least two computational stages, but has {stages}",
        )


def check_mapping(
    mapping: Sequence[int], stages: int, kind: ScheduleKind, training: bool
) -> Iterator[Problem]:
    """Yield what is wrong with the IPUs of the stages; an empty mapping is in order."""
    if not mapping:
        return
    if len(mapping) != stages:
        yield Problem(
            MAPPING,
            f"`device_mapping` has {len(mapping)} entries for {stages} stages",
            f"name {stages} IPUs, or none for one IPU per stage",
            suggestion=(),
        )
    if min(mapping) < 0:
        yield Problem(
            MAPPING,
            f"there is no IPU {min(mapping)}",
            "IPUs count from 0",
            suggestion=(),
        )
    shared = len(set(mapping)) < len(mapping)
    if shared and training and kind is ScheduleKind.INTERLEAVED:
        yield Problem(
            MAPPING,
            f"stages share an IPU in {list(mapping)}, which Interleaved cannot train",
            "give every stage its own IPU, or take Grouped or Sequential",
            exception="NotImplementedError",
            suggestion=(),
        )


def check_shards(mapping: Sequence[int], shards: int) -> Iterator[Problem]:
    """Yield a problem if an estimator reserves more or fewer IPUs than stages take."""
    needed = reserved_ipus(max(mapping) + 1)
    if shards != needed:
        yield Problem(
            MAPPING,
            f"the IPUs of the stages are {list(mapping)}, but num_shards is {shards}",
            f"it must be {needed}",
        )


def check_one_ipu(
    what: str, ipus: Iterable[int], hint: str, where: str = STAGES
) -> Iterator[Problem]:
    """Yield a problem if weights are used on several IPUs.

    Args:
        what: The layers or stages that use them.
        ipus: The IPUs of these.
        hint: What would be valid.
        where: The field that is wrong.
    """
    different = sorted(set(ipus))
    if len(different) > 1:
        yield Problem(
            where,
            f"{what} share weights, but are on IPUs "
            f"{', '.join(map(str, different))}: an input can only be used by pipeline "
            "stages on the same IPU",
            hint,
            exception="UnimplementedError",
        )


def check_recomputation(kind: ScheduleKind, mode: Recomputation) -> Iterator[Problem]:
    """Yield a problem if a schedule does not recompute in this way."""
    if kind.on_ipu and not recomputation_allowed(kind, mode):
        yield Problem(
            "pipeline.recomputation",
            f"{mode.value} does not work with {kind.value}",
            "Auto picks the mode that does",
            exception="UnimplementedError",
            suggestion="Auto",
        )


def check_length(count: int, where: str) -> Iterator[Problem]:
    """Yield a problem if a pipeline run has too many micro-batches to be modelled."""
    if count > MOST_MICRO_BATCHES:
        yield Problem(
            where,
            f"{count:,} micro-batches of one pipeline run are too many to model",
            f"at most {MOST_MICRO_BATCHES:,}",
            suggestion=MOST_MICRO_BATCHES,
        )


def check_count(
    kind: ScheduleKind,
    mapping: Sequence[int],
    count: int,
    *,
    training: bool,
    io_tiles: bool,
    where: str,
    among: Sequence[int] | None = None,
) -> Iterator[Problem]:
    """Yield a problem if the device could not start so many micro-batches evenly.

    Args:
        kind: The schedule.
        mapping: IPU of every stage.
        count: Micro-batches of one pipeline run.
        training: Whether there are backward passes.
        io_tiles: Whether tiles are reserved for I/O.
        where: The field that the count is from.
        among: Counts that other rules allow, in order; None if all are.
    """
    allowed = allowed_counts(kind, mapping, training=training, io_tiles=io_tiles)
    if count in allowed:
        return
    least, any_from_least = allowed.start, allowed.step < allowed.start
    if among is None:
        below = max(count, least) // allowed.step * allowed.step
        among = [least] if any_from_least else [below, below + least]
    valid = [number for number in among if number in allowed]
    near = sorted(sorted(valid, key=lambda number: abs(number - count))[:2])
    tried = f"try {' or '.join(map(str, near))} ({_COUNT_ARGUMENTS})"
    wanted = f"at least {least}" if any_from_least else f"a multiple of {least}"
    tiles = " and I/O tiles" if any_from_least else ""
    yield Problem(
        where,
        f"the number of iterations of the pipeline must be {wanted}, but it is {count}",
        f"for {kind.value} with {len(mapping)} stages{tiles}, "
        f"{tried if near else 'an epoch needs other steps'}",
        exception="FailedPreconditionError",
        suggestion=min(
            near, key=lambda number: (abs(number - count), -number), default=None
        ),
    )


def allowed_counts(
    kind: ScheduleKind, mapping: Sequence[int], *, training: bool, io_tiles: bool
) -> range:
    """Return the micro-batches that one pipeline run may have.

    They are whole turns of the stages; with tiles for I/O, whose streams overlap with
    the stages, Grouped takes any number from two turns more on.
    """
    overlap = overlap_length(kind, mapping, training)
    if io_tiles and kind is ScheduleKind.GROUPED:
        return range(overlap + 2, MOST_MICRO_BATCHES + 1)
    return range(overlap, MOST_MICRO_BATCHES + 1, overlap)
