"""The same stages under every schedule."""

from __future__ import annotations

import pytest

from ipu_runtime.plan.schedule.schedule import ScheduleKind
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment
from workbench.planning.schedule_comparison import ScheduleRow, compare_schedules


@pytest.fixture(scope="module")
def rows() -> dict[ScheduleKind, ScheduleRow]:
    spec, _ = validate(load_preset("mnist-ipu-pipelined").tables)
    assert spec is not None
    return {row.kind: row for row in compare_schedules(spec, plan_experiment(spec))}


def test_every_schedule_has_a_row(rows: dict[ScheduleKind, ScheduleRow]) -> None:
    assert set(rows) == set(ScheduleKind)


def test_memory_is_known_for_the_ipus_own_schedules_only(
    rows: dict[ScheduleKind, ScheduleRow],
) -> None:
    for kind, row in rows.items():
        assert (row.memory_fraction is not None) == kind.on_ipu


def test_sequential_keeps_nothing_and_grouped_keeps_most_on_the_ipu(
    rows: dict[ScheduleKind, ScheduleRow],
) -> None:
    assert rows[ScheduleKind.SEQUENTIAL].stash == 0
    assert rows[ScheduleKind.GROUPED].stash == 2
    assert rows[ScheduleKind.INTERLEAVED].stash == 1


def test_experiment_without_pipeline_has_nothing_to_compare() -> None:
    spec, _ = validate(load_preset("mnist-ipu").tables)
    assert spec is not None
    assert compare_schedules(spec, plan_experiment(spec)) == []


def test_long_runs_of_schedules_that_the_ipu_lacks_are_not_timed() -> None:
    tables = load_preset("mnist-ipu-pipelined").tables
    tables = {
        **tables,
        "execution": {**tables["execution"], "gradient_accumulation": 100_000},
        "data": {**tables["data"], "dataset": "synthetic", "train_samples": 6_400_000},
    }
    spec, problems = validate(tables)
    assert spec is not None, problems
    for row in compare_schedules(spec, plan_experiment(spec)):
        assert (row.timeline is not None) == row.kind.on_ipu
        assert ("50,000" in row.reason) != row.kind.on_ipu
