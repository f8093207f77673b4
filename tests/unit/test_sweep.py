"""Sweeps: every point once, whatever interrupts them, and invalid ones explained."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.dying_work import doubled, lost, unwritten
from workbench.cluster.team import Team
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate
from workbench.headless.exit_codes import ExitCode
from workbench.headless.main import main
from workbench.instances.instance_job import InstanceJob
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.run_context import NoMachines, RunControl
from workbench.runs.run_store import list_runs
from workbench.store_json import RecordError, UnknownRecord
from workbench.sweeps.sweep import default_jobs, run_sweep
from workbench.sweeps.sweep_grid import Point, parse_grid
from workbench.sweeps.sweep_point import PointResult, experiment_at, ranked
from workbench.sweeps.sweep_record import (
    SweepDefinition,
    SweepRecord,
    read_results,
)
from workbench.sweeps.sweep_workers import work_in_processes

PRESET = "mnist-ipu-pipelined"


def _begin(*grid: str, trained: bool = False) -> SweepRecord:
    axes, problems = parse_grid(grid)
    assert problems == ()
    tables = load_preset(PRESET).tables
    return SweepRecord.create(SweepDefinition(PRESET, tables, axes, trained))


def _all(record: SweepRecord, jobs: int = 1) -> dict[int, PointResult]:
    results = list(run_sweep(record, RunControl(), jobs))
    return {result.index: result for result in results}


def test_a_planned_point_says_what_planning_it_alone_says() -> None:
    record = _begin("data.batch_size=16,32", "execution.gradient_accumulation=4,8")

    results = _all(record)

    tables = dict(load_preset(PRESET).tables)
    tables["data"] = {**tables["data"], "batch_size": 32}
    tables["execution"] = {**tables["execution"], "gradient_accumulation": 4}
    spec, _ = validate(tables)
    assert spec is not None
    plan = plan_experiment(spec)
    assert results[2].values == {
        "data.batch_size": "32",
        "execution.gradient_accumulation": "4",
    }
    assert results[2].metrics["ipu_us_per_batch"] == plan.ipu_us_per_batch
    assert results[2].metrics["samples_per_second"] == plan.samples_per_second
    assert all(result.problem == "" for result in results.values())


def test_one_stage_is_no_pipeline() -> None:
    results = _all(_begin("stages=1,2"))

    assert [results[at].problem for at in (0, 1)] == ["", ""]
    assert results[0].stages == ()
    assert results[0].metrics["bubble_fraction"] == 0
    assert results[0].metrics["replicas"] == 2 * results[1].metrics["replicas"]


def test_what_stages_set_besides_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "mnist-ipu", "--grid", "stages=1,2,3", "--plan-only"]
    main(words, {}, lambda args: pytest.fail("opened the app"))

    text = capsys.readouterr().out
    assert "stages=1 also" not in text
    assert "stages=2 also sets data.batch_size=16, " in text
    assert "stages=2 trains otherwise" not in text
    told = "stages=3 trains otherwise: 66 samples per update instead of 64: 1.03 times"
    assert told in text


def test_executions_of_stages_have_as_many_samples() -> None:
    one, two = (
        experiment_at(load_preset("mnist-ipu").tables, Point(0, {"stages": stages}))
        for stages in "12"
    )
    assert one.spec is not None
    assert two.spec is not None
    assert one.spec.execution.steps_per_execution == 1
    assert two.spec.execution.steps_per_execution == 4
    assert two.spec.data.batch_size * 4 == one.spec.data.batch_size


@pytest.mark.parametrize(
    ("grid", "by"),
    [
        ("data.batch_size=16,64", "samples_per_second"),
        ("train.learning_rate=0.1,0.2", "ipu_us_per_batch"),
    ],
)
def test_times_of_batches_of_different_sizes_rank_nothing(
    grid: str, by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--grid", grid, "--by", "ipu_us_per_batch", "--plan-only"]
    words = ["sweep", "mnist-ipu-faster", *words]
    main(words, {}, lambda args: pytest.fail("opened the app"))

    printed = capsys.readouterr()
    assert f"valid points by {by}" in printed.out
    assert ("batches differ in size" in printed.err) == (by != "ipu_us_per_batch")


@pytest.mark.parametrize(
    ("preset", "stages", "api"),
    [
        ("cifar10-ipu-pipeline-estimator", "1", "ipu_estimator"),
        ("cifar10-ipu-pipeline-estimator", "2", "ipu_pipeline_estimator"),
        ("cifar10-ipu-estimator", "1", "ipu_estimator"),
        ("cifar10-ipu-estimator", "2", "ipu_pipeline_estimator"),
        ("mnist-ipu-pipelined", "1", "ipu_strategy"),
        ("mnist-cpu", "1", "ipu_strategy"),
    ],
)
def test_every_interface_has_any_number_of_stages(
    preset: str, stages: str, api: str
) -> None:
    point = Point(0, {"stages": stages})

    experiment = experiment_at(load_preset(preset).tables, point)

    assert experiment.spec is not None, experiment.problems
    assert experiment.spec.execution.api == api
    assert max(experiment.spec.pipeline.stages, default=0) + 1 == int(stages)


def test_what_the_grid_sets_stays_even_where_it_is_not_valid() -> None:
    point = Point(0, {"stages": "1", "execution.api": "ipu_pipeline_estimator"})

    experiment = experiment_at(load_preset("cifar10-ipu-estimator").tables, point)

    assert experiment.spec is None
    assert "needs the stage of every layer" in str(experiment.problems[0])


def test_stages_are_balanced_and_get_the_ipus_they_need() -> None:
    results = _all(_begin("stages=2,4"))

    assert results[0].metrics["ipus"] == 2
    assert results[1].metrics["ipus"] == 4
    assert len(results[1].stages) == 7
    assert set(results[1].stages) == {0, 1, 2, 3}
    assert list(results[1].stages) == sorted(results[1].stages)


def test_invalid_points_carry_their_reason_and_do_not_stop_the_sweep() -> None:
    results = _all(_begin("execution.gradient_accumulation=8,6", "stages=2,99"))

    assert [bool(results[index].problem) for index in range(4)] == [
        False,
        True,
        True,
        True,
    ]
    assert "7 layers can be cut into 2 to 7 stages" in results[1].problem
    assert "must be a multiple of 4, but it is 6" in results[2].problem
    assert [r.index for r in ranked(results.values(), "ipu_us_per_batch")] == [0]


def test_an_interrupted_sweep_does_only_what_is_left() -> None:
    record = _begin("data.batch_size=1..10")
    whole = _all(record)
    lines = (record.directory / "points.jsonl").read_text().splitlines(keepends=True)
    # As a kill in the middle of a line would leave it.
    (record.directory / "points.jsonl").write_text("".join(lines[:4]) + lines[4][:20])
    record.close()

    again = SweepRecord.reopen(record.group)
    rest = _all(again)

    assert sorted(rest) == [4, 5, 6, 7, 8, 9]
    assert {r.index: r for r in read_results(record.directory)} == whole
    assert _all(again) == {}


def test_a_stopped_sweep_stops_and_keeps_what_it_has() -> None:
    record = _begin("data.batch_size=1..200")
    control = RunControl()
    done = []
    for result in run_sweep(record, control, 1):
        done.append(result)
        control.stop.set()
    assert 0 < len(done) < 200
    assert len(record.results()) == len(done)


@pytest.mark.slow
def test_processes_find_what_one_process_finds() -> None:
    here = _all(_begin("data.batch_size=1..150"))
    elsewhere = _all(_begin("data.batch_size=1..150"), jobs=2)
    assert elsewhere == here


class _GoneCluster:
    """Stands for machines that were there when a sweep began, and never again."""

    lost = False

    def places(self, tables: Mapping[str, Any]) -> int:
        return 1

    def starter(self, control: RunControl, until: int = 0) -> _GoneCluster:
        return self

    @contextmanager
    def __call__(self, job: InstanceJob) -> Iterator[Any]:
        raise NoMachines("the cluster has 0 machines")
        yield


def test_a_lack_of_machines_is_no_result_of_a_point() -> None:
    record = _begin("train.learning_rate=0.1,0.2", trained=True)
    for _ in range(2):
        with pytest.raises(NoMachines, match="the cluster has 0 machines"):
            list(run_sweep(record, RunControl(), team=cast(Team, _GoneCluster())))
        assert record.results() == []
        # What was begun is gone on with, and no point has a second run.
        begun = [
            run.tables["train"]["learning_rate"] for run in list_runs(record.group)
        ]
        assert len(begun) == len(set(begun)) > 0


def test_a_sweep_without_a_valid_point_is_no_success(
    capsys: pytest.CaptureFixture[str],
) -> None:
    grid = ("--plan-only", "--grid", "execution.gradient_accumulation=7,9")
    assert main(("sweep", PRESET, *grid), {}, lambda **_: 0) == ExitCode.FAILED
    assert "no point is valid" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["-1", "soon", "1e3", "9" * 30])
def test_a_time_to_wait_that_makes_no_sense_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(("sweep", PRESET, "--on", "ray", "--wait", text), {}, lambda **_: 0)
    assert "must be whole seconds from 0 on" in capsys.readouterr().err


def test_sweeps_have_names_of_their_own() -> None:
    first, second = _begin("stages=2"), _begin("stages=2")
    assert first.group != second.group
    with pytest.raises(RecordError, match="exists: choose another --group"):
        SweepRecord.create(first.definition, first.group)
    with pytest.raises(RecordError, match="use letters"):
        SweepRecord.create(first.definition, "../x")
    with pytest.raises(UnknownRecord, match="there is no sweep"):
        SweepRecord.reopen("../runs")


def test_two_processes_are_used_only_where_they_pay() -> None:
    assert default_jobs(10, trained=False) == 1
    assert default_jobs(10_000, trained=False) in (1, 2)
    assert default_jobs(10_000, trained=True) == 1


def test_a_dead_process_costs_one_task_at_most(tmp_path: Path) -> None:
    tasks = [(1, ""), (2, str(tmp_path / "tried")), (3, "always"), (4, ""), (5, "")]
    results = work_in_processes(tasks, doubled, lost, 2, RunControl())
    assert sorted(results) == [-3, 2, 4, 8, 10]


def test_a_full_disk_is_no_result_of_a_task() -> None:
    with pytest.raises(RecordError, match="cannot write 1"):
        list(work_in_processes([1], unwritten, lost, 2, RunControl()))


_WAITING = """
from tests.unit.dying_work import lost, waiting
from workbench.runs.run_context import RunControl
from workbench.sweeps.sweep_workers import work_in_processes
list(work_in_processes([1, 2], waiting, lost, 2, RunControl()))
"""


def test_processes_stop_when_the_one_that_gives_them_work_is_killed() -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", _WAITING],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    )
    assert first.stdout is not None
    try:
        assert [first.stdout.readline() for _ in range(2)] == ["begun\n"] * 2
        first.kill()
        # Until its output ends, which is theirs too.
        assert first.communicate(timeout=20)[0] == "stopped\n" * 2
    finally:
        with suppress(ProcessLookupError):
            os.killpg(first.pid, signal.SIGKILL)
