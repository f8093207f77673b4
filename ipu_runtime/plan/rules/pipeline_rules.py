"""Rules for one pipeline run, whatever its stages are: layers of a model or functions.

The plan of an experiment, `fit` of a pipelined model, `pipelining_ops.pipeline` and
the pipeline estimator all ask here, so that one setting has one verdict and one text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ipu_runtime.plan.problem import Problem
from ipu_runtime.plan.schedule.building import overlap_length, recomputation_allowed
from ipu_runtime.plan.schedule.schedule import Recomputation, ScheduleKind

MAPPING = "pipeline.device_mapping"
_COUNT_ARGUMENTS = (
    "it is set by gradient_accumulation_count, "
    "gradient_accumulation_steps_per_replica or steps_per_execution"
)


def has_io_tiles(config: Mapping[str, Any]) -> bool:
    """Return whether tiles are reserved for I/O, which changes how Grouped runs."""
    tiles = config.get("io_tiles.num_io_tiles", 0)
    return isinstance(tiles, int) and tiles > 0


def check_stage_count(stages: int, where: str = "pipeline.stages") -> Iterator[Problem]:
    """Yield a problem if there is nothing to hand on."""
    if stages < 2:
        yield Problem(
            where,
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


def check_count(
    kind: ScheduleKind,
    mapping: Sequence[int],
    count: int,
    *,
    training: bool,
    io_tiles: bool,
    where: str,
    most: int | None = None,
) -> Iterator[Problem]:
    """Yield a problem if the device could not start so many micro-batches evenly.

    Args:
        kind: The schedule.
        mapping: IPU of every stage.
        count: Micro-batches of one pipeline run.
        training: Whether there are backward passes.
        io_tiles: Whether tiles are reserved for I/O.
        where: The field that the count is from.
        most: Micro-batches that there are at all, if that is known.
    """
    overlap = overlap_length(kind, mapping, training)
    name = f"{kind.value} with {len(mapping)} stages"
    if io_tiles and kind is ScheduleKind.GROUPED:
        least = overlap + 2
        if count < least:
            wanted, name = f"at least {least}", f"{name} and I/O tiles"
            yield _refused(where, wanted, count, name, [least], most)
    elif count < overlap or count % overlap:
        below = max(count, 0) // overlap * overlap
        valid = [number for number in (below, below + overlap) if number > 0]
        wanted = f"a multiple of {overlap}"
        yield _refused(where, wanted, count, name, valid, most)


def _refused(
    where: str,
    wanted: str,
    count: int,
    name: str,
    valid: list[int],
    most: int | None,
) -> Problem:
    enough = [number for number in valid if most is None or number <= most]
    tried = f"try {' or '.join(map(str, enough))} ({_COUNT_ARGUMENTS})"
    return Problem(
        where,
        f"the number of iterations of the pipeline must be {wanted}, but it is {count}",
        f"for {name}, {tried if enough else f'more batches: there are {most}'}",
        exception="FailedPreconditionError",
        suggestion=min(
            enough, key=lambda number: (abs(number - count), -number), default=None
        ),
    )
