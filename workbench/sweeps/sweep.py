"""Going through the points of a sweep: planned or trained, here or in processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

from workbench.cluster.team import Team
from workbench.experiment.validation import understood
from workbench.runs.run_context import RunControl
from workbench.sweeps.halving import Halving
from workbench.sweeps.point_training import PointTraining
from workbench.sweeps.sweep_grid import Point, count_points, points
from workbench.sweeps.sweep_point import PointResult, plan_point
from workbench.sweeps.sweep_record import SweepRecord
from workbench.sweeps.sweep_workers import (
    work_here,
    work_in_processes,
    work_in_threads,
)

_LARGE = 500
"""Planned points from which starting a second process pays."""
_CHUNK = 64


def default_jobs(count: int, *, trained: bool) -> int:
    """Return how many processes to use for so many points."""
    if trained or count < _LARGE:
        return 1
    return min(2, os.cpu_count() or 1)


def run_sweep(
    record: SweepRecord,
    control: RunControl,
    jobs: int | None = None,
    team: Team | None = None,
) -> Iterator[PointResult]:
    """Do what is left of a sweep; every result is kept before it is handed out.

    Args:
        record: The sweep.
        control: How it is stopped.
        jobs: Points at once; None for as many as suit.
        team: Machines that train; None for this one.
    """
    definition = record.definition
    done = {result.index for result in record.results()}
    left = (point for point in points(definition.axes) if point.index not in done)
    count = count_points(definition.axes) - len(done)
    if jobs is None and team is not None:
        jobs = team.places(definition.tables)
    elif jobs is None:
        jobs = default_jobs(count, trained=definition.trained)
    if not definition.trained:
        work = partial(_plan_chunk, definition.tables)
        finished = _finished(_chunks(left, _CHUNK), work, min(jobs, count), control)
        yield from _kept(record, finished)
        return
    train = PointTraining(definition.tables, definition.preset, record.group, team)
    if definition.halving is None:
        finished = _finished(_chunks(left, 1), train, min(jobs, count), control)
        yield from _kept(record, finished)
    else:
        yield from _halved(record, definition.halving, train, jobs, control)


def _halved(
    record: SweepRecord,
    halving: Halving,
    train: PointTraining,
    jobs: int,
    control: RunControl,
) -> Iterator[PointResult]:
    """Train all points a little and the better ones on; what is done is not redone."""
    definition = record.definition
    standing = {point.index: point for point in points(definition.axes)}
    done = {result.index for result in record.results()}
    epochs = understood(definition.tables).train.epochs
    rungs = halving.rungs(len(standing), epochs)
    for (_, epoch), (going, _) in zip(rungs, (*rungs[1:], (0, 0)), strict=True):
        reached = {item.index: item for item in record.rung(epoch)}
        missing = [standing[i] for i in standing if i not in reached]
        work = replace(train, until=epoch if epoch < epochs else 0)
        for results in _finished(
            _chunks(missing, 1), work, min(jobs, len(missing)), control
        ):
            record.add_rung(epoch, results)
            reached |= {item.index: item for item in results}
        if len(reached) < len(standing):
            return
        chosen = halving.going_on(reached.values(), going)
        ended = [reached[i] for i in standing if i not in chosen and i not in done]
        yield from _kept(record, [ended])
        standing = {index: standing[index] for index in chosen}


def _kept(
    record: SweepRecord, finished: Iterable[list[PointResult]]
) -> Iterator[PointResult]:
    for results in finished:
        record.add(results)
        yield from results


def _finished(
    chunks: Iterable[list[Point]],
    work: PointTraining | partial[list[PointResult]],
    jobs: int,
    control: RunControl,
) -> Iterator[list[PointResult]]:
    if isinstance(work, PointTraining) and work.team is not None:
        return work_in_threads(chunks, work, max(1, jobs), control)
    if jobs <= 1:
        return work_here(chunks, work, control)
    return work_in_processes(chunks, work, _lost, jobs, control)


def _chunks(left: Iterable[Point], size: int) -> Iterator[list[Point]]:
    iterator = iter(left)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _lost(chunk: Sequence[Point], why: str) -> list[PointResult]:
    return [PointResult(point.index, point.values, {}, why) for point in chunk]


def _plan_chunk(
    base: Mapping[str, Any], chunk: Sequence[Point], control: RunControl
) -> list[PointResult]:
    return [plan_point(base, point) for point in chunk]
