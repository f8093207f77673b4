"""Sweeps that train: runs of a group, failures as reasons, and event files."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest

from workbench.experiment.validation import validate
from workbench.export.tensorboard_export import write_event_files
from workbench.runs.events import EpochEnded, Event, RunStatus
from workbench.runs.run_context import RunControl
from workbench.runs.run_store import list_runs, open_run
from workbench.runs.runner import run_experiment
from workbench.store_json import RecordError
from workbench.sweeps.halving import Halving
from workbench.sweeps.sweep import run_sweep
from workbench.sweeps.sweep_grid import parse_grid
from workbench.sweeps.sweep_point import PointResult, ranked
from workbench.sweeps.sweep_record import (
    SweepDefinition,
    SweepRecord,
)

pytestmark = pytest.mark.slow

TABLES: dict[str, Any] = {
    "experiment": {"name": "tiny", "title": "Tiny", "seed": 5},
    "data": {
        "dataset": "synthetic",
        "batch_size": 16,
        "train_samples": 64,
        "test_samples": 16,
        "labels": "sparse",
    },
    "train": {"loss": "sparse_categorical_crossentropy", "epochs": 2},
    "execution": {"api": "cpu"},
    "model": {
        "layers": [
            {"name": "input", "kind": "Input", "shape": [4]},
            {"name": "dense", "kind": "Dense", "units": 3, "activation": "softmax"},
        ]
    },
}


def test_every_trained_point_is_a_run_of_the_group() -> None:
    axes, _ = parse_grid(["train.learning_rate=0.0,0.5,1e39", "data.batch_size=16,0"])
    record = SweepRecord.create(SweepDefinition("tiny", TABLES, axes, trained=True))

    results = list(run_sweep(record, RunControl()))

    assert [r.index for r in results] == [0, 1, 2, 3, 4, 5]
    assert [bool(r.problem) for r in results] == [False, True, False, True, True, True]
    assert "data.batch_size: 0 is out of range" in results[1].problem
    assert "the loss is nan" in results[4].problem
    # Without learning nothing changes from epoch to epoch, apart from rounding.
    idle = open_run(results[0].run_id).series().epochs["loss"].ys
    assert idle[0] == pytest.approx(idle[1], rel=1e-5)
    assert ranked(results, "loss_last")[0].index == 2
    runs = list_runs(record.group)
    assert {run.run_id for run in runs} == {r.run_id for r in results if r.run_id}
    assert [run.status for run in runs] == [
        RunStatus.FAILED,
        RunStatus.FINISHED,
        RunStatus.FINISHED,
    ]


def test_a_point_that_was_interrupted_is_continued_not_begun_anew() -> None:
    axes, _ = parse_grid(["train.learning_rate=0.1"])
    record = SweepRecord.create(SweepDefinition("tiny", TABLES, axes, trained=True))
    spec, _ = validate(TABLES | {"train": {**TABLES["train"], "learning_rate": 0.1}})
    assert spec is not None
    control = RunControl()

    def stop_after_first_epoch(event: Event) -> None:
        if isinstance(event, EpochEnded):
            control.stop.set()

    group = record.group
    status = run_experiment(
        spec, control, stop_after_first_epoch, preset="tiny", group=group
    )
    assert status is RunStatus.STOPPED

    (result,) = run_sweep(record, RunControl())

    (run,) = list_runs(group)
    assert result.run_id == run.run_id
    assert run.status is RunStatus.FINISHED
    assert run.series().epochs["loss"].xs == (1.0, 2.0)


def _halved(record: SweepRecord, control: RunControl) -> list[PointResult]:
    """Go on with a sweep, and stop it when there are results."""
    results = []
    for result in run_sweep(record, control):
        results.append(result)
        control.stop.set()
    record.close()
    return results


def test_worse_points_are_stopped_early_and_better_ones_go_on() -> None:
    axes, _ = parse_grid(["train.learning_rate=0.0,0.05,0.2,0.5"])
    tables = TABLES | {"train": {**TABLES["train"], "epochs": 4}}
    definition = SweepDefinition("tiny", tables, axes, True, Halving("loss", 11))
    # It is interrupted as soon as there are results, and goes on.
    results = _halved(SweepRecord.create(definition, "halved"), RunControl())
    assert 0 < len(results) < 4
    while more := _halved(SweepRecord.reopen("halved"), RunControl()):
        results += more

    ended = {result.index: result.stopped_epoch for result in results}
    assert len(results) == len(ended) == 4
    runs = {result.index: open_run(result.run_id) for result in results}
    curves = {index: run.series().epochs["loss"].ys for index, run in runs.items()}
    # Of 11 epochs all points take 4, the better two 2, and the best 2.
    assert sorted(ended.values()) == [0, 1, 1, 2]
    assert sum(map(len, curves.values())) == 4 + 2 + 2
    by_first = sorted(curves, key=lambda index: curves[index][0])
    assert {index for index in ended if ended[index] != 1} == set(by_first[:2])
    best = min(by_first[:2], key=lambda index: curves[index][1])
    assert ended[best] == 0
    assert runs[best].status is RunStatus.FINISHED
    assert {runs[i].status for i in runs if i != best} == {RunStatus.STOPPED}


def test_event_files_hold_the_numbers_of_the_run(tmp_path: Path) -> None:
    import tensorflow as tf
    from tensorflow.python.summary.summary_iterator import summary_iterator

    events: list[Event] = [
        EpochEnded(1, 0.5, 0.25, 2.0, 222.0, 3.0),
        EpochEnded(2, 0.125, None, 2.0, 222.0, 3.0),
    ]
    write_event_files(events, tmp_path / "board")

    (file,) = (tmp_path / "board").iterdir()
    found = {
        (value.tag, entry.step): float(tf.make_ndarray(value.tensor))
        for entry in summary_iterator(str(file))
        for value in entry.summary.value
    }
    assert found == {
        ("epoch/loss", 1): 0.5,
        ("epoch/accuracy", 1): 0.25,
        ("epoch/time per batch/measured ms", 1): 2.0,
        ("epoch/time per batch/modelled us", 1): 222.0,
        ("epoch/loss", 2): 0.125,
        ("epoch/time per batch/measured ms", 2): 2.0,
        ("epoch/time per batch/modelled us", 2): 222.0,
    }


def test_event_files_on_a_full_disk_are_refused_in_words(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(RecordError, match=f"cannot write {tmp_path}: File too"):
            write_event_files([], tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
