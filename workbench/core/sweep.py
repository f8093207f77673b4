"""Going through the points of a sweep: planned or trained, here or in processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from workbench.core.compare import outcome_of
from workbench.core.event_json import plain
from workbench.core.events import Event, RunStarted, RunStatus
from workbench.core.run_context import RunControl
from workbench.core.run_store import list_runs, open_run
from workbench.core.sweep_grid import Point, count_points, points
from workbench.core.sweep_point import (
    HIGHER_IS_BETTER,
    PointResult,
    experiment_at,
    plan_point,
    refused,
)
from workbench.core.sweep_record import SweepRecord
from workbench.core.sweep_workers import work_here, work_in_processes
from workbench.core.tables import spec_to_tables

_LARGE = 500
"""Planned points from which starting a second process pays."""
_CHUNK = 64


def default_jobs(count: int, *, trained: bool) -> int:
    """Return how many processes to use for so many points."""
    if trained or count < _LARGE:
        return 1
    return min(2, os.cpu_count() or 1)


def run_sweep(
    record: SweepRecord, control: RunControl, jobs: int | None = None
) -> Iterator[PointResult]:
    """Do what is left of a sweep; every result is kept before it is handed out."""
    definition = record.definition
    done = {result.index for result in record.results()}
    left = (point for point in points(definition.axes) if point.index not in done)
    count = count_points(definition.axes) - len(done)
    if jobs is None:
        jobs = default_jobs(count, trained=definition.trained)
    if definition.trained:
        work = partial(_train_chunk, definition.tables, definition.preset, record.group)
        chunks = _chunks(left, 1)
    else:
        work = partial(_plan_chunk, definition.tables)
        chunks = _chunks(left, _CHUNK)
    jobs = max(1, min(jobs, count))
    if jobs == 1:
        finished = work_here(chunks, work, control)
    else:
        finished = work_in_processes(chunks, work, jobs, control)
    for results in finished:
        record.add(results)
        yield from results


def ranked(results: Iterable[PointResult], metric: str) -> list[PointResult]:
    """Return the good points that have the metric, best first."""
    good = [r for r in results if not r.problem and r.metrics.get(metric) is not None]
    sign = -1.0 if metric in HIGHER_IS_BETTER else 1.0
    return sorted(good, key=lambda r: (sign * r.metrics[metric], r.index))


def _chunks(left: Iterable[Point], size: int) -> Iterator[list[Point]]:
    iterator = iter(left)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _plan_chunk(
    base: Mapping[str, Any], chunk: Sequence[Point], control: RunControl
) -> list[PointResult]:
    return [plan_point(base, point) for point in chunk]


def _train_chunk(
    base: Mapping[str, Any],
    preset: str,
    group: str,
    chunk: Sequence[Point],
    control: RunControl,
) -> list[PointResult]:
    results = (_train_point(base, preset, group, point, control) for point in chunk)
    return [result for result in results if result is not None]


def _train_point(
    base: Mapping[str, Any], preset: str, group: str, point: Point, control: RunControl
) -> PointResult | None:
    """Train a point; None if it was stopped, so that it counts as not done."""
    experiment = experiment_at(base, point)
    if experiment.spec is None:
        return refused(point, experiment.problems)
    # The runner is only needed by those who train.
    from workbench.core.runner import run_experiment

    run_id = _interrupted_run(group, spec_to_tables(experiment.spec))
    started: list[str] = []

    def note_id(event: Event) -> None:
        if isinstance(event, RunStarted):
            started.append(event.run_id)

    status = run_experiment(
        experiment.spec, control, note_id, preset=preset, resume=run_id, group=group
    )
    if status is RunStatus.STOPPED:
        return None
    run = open_run(started[-1] if started else run_id or "")
    problem = "" if status is RunStatus.FINISHED else run.message or status.value
    metrics = outcome_of(run)
    return PointResult(
        point.index, point.values, metrics, problem, run.run_id, experiment.stages
    )


def _interrupted_run(group: str, tables: Mapping[str, Any]) -> str | None:
    """Return the run of this experiment that was begun but not ended."""
    for run in list_runs(group):
        begun = run.status in (RunStatus.KILLED, RunStatus.STOPPED)
        if begun and run.tables == plain(tables):
            return run.run_id
    return None
