"""Runs side by side: only what differs, and the best of each number."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from workbench.comparing.compare import compare_runs, comparison_to_json
from workbench.comparing.outcome import outcome_of
from workbench.export.run_export import COLUMNS, run_to_json, runs_to_csv
from workbench.runs.event_json import to_line
from workbench.runs.events import EpochEnded, Evaluated, Progressed, RunStatus
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import StoredRun, open_run
from workbench.runs.series import RATES, TIMES, series_of


def _run(losses: list[float], **data: object) -> StoredRun:
    record = RunRecord.create({"data": data, "experiment": {"title": str(data)}}, "p")
    for epoch, loss in enumerate(losses, start=1):
        record.append(Progressed(epoch, 5, 10, loss + 1, None, 2.0, 30.0))
        record.append(EpochEnded(epoch, loss, 1 - loss, 2.0, 30.0 + epoch, 4.0))
    record.append(Evaluated(losses[-1] / 2, 0.75))
    record.finish(RunStatus.FINISHED)
    return open_run(record.run_id)


def test_best_and_last_are_told_apart_and_the_better_run_is_marked() -> None:
    runs = [_run([0.5, 0.2, 0.4]), _run([0.6, 0.3], batch_size=16)]

    rows = {row.key: row for row in compare_runs(runs).metrics}

    assert rows["loss_best"].values == (0.2, 0.3)
    assert rows["loss_last"].values == (0.4, 0.3)
    assert (rows["loss_best"].best_index, rows["loss_last"].best_index) == (0, 1)
    assert rows["accuracy_best"].values == (0.8, 0.7)
    assert rows["test_accuracy"].best_index is None
    assert rows["ipu_us_per_batch"].values == (33.0, 32.0)
    assert rows["seconds"].values == (12.0, 8.0)
    assert rows["seconds"].best_index is None


def _timed(replicas: int, batch_size: int, step: float, loss: str = "") -> StoredRun:
    train = {"loss": loss} if loss else {}
    record = RunRecord.create({"train": train}, "p")
    ended = EpochEnded(1, 0.5, None, step, step, 4.0)
    record.append(replace(ended, replicas=replicas, batch_size=batch_size))
    record.finish(RunStatus.FINISHED)
    return open_run(record.run_id)


def test_runs_are_ranked_by_what_they_do_in_a_second_not_by_their_steps() -> None:
    one, two = _timed(1, 32, 100.0), _timed(2, 32, 150.0)

    rows = {row.key: row for row in compare_runs([one, two]).metrics}

    assert rows["ipu_us_per_batch"].values == (100.0, 75.0)
    assert rows["host_ms_per_batch"].values == (100.0, 75.0)
    assert rows["samples_per_second"].values == (32e4, 32 * 1e6 / 75)
    assert rows["host_samples_per_second"].values == (320.0, 32 * 1e3 / 75)
    assert {rows[key].best_index for key in (*TIMES, *RATES)} == {1}
    assert "ipu_step_us" not in rows


def test_numbers_of_different_things_have_no_best() -> None:
    runs = [_timed(1, 32, 100.0), _timed(1, 64, 150.0, "mse")]

    comparison = compare_runs(runs)

    rows = {row.key: row for row in comparison.metrics}
    assert {rows[key].best_index for key in TIMES} == {None}
    assert {rows[key].other_units for key in TIMES} == {"batches differ in size"}
    assert {rows[key].best_index for key in RATES} == {1}
    assert rows["loss_best"].other_units == "losses differ in kind"
    said = comparison_to_json(comparison)["other_units"]
    assert said.keys() == {*TIMES, "loss_best", "loss_last"}


def test_a_comparison_is_strict_json_even_with_broken_losses() -> None:
    comparison = compare_runs([_run([float("nan")]), _run([0.5])])

    row = json.loads(to_line(comparison_to_json(comparison)))

    assert row["event"] == "comparison"
    assert row["metrics"]["loss_last"] == [None, 0.5]
    assert comparison.metrics[0].best_index is None


def test_the_csv_has_a_row_for_every_measurement() -> None:
    run = _run([0.5, 0.25])

    rows = list(csv.DictReader(io.StringIO(runs_to_csv([run]))))

    assert tuple(rows[0]) == COLUMNS
    kinds = ["progress", "epoch_ended"] * 2 + ["evaluated"]
    assert [row["event"] for row in rows] == kinds
    assert [row["loss"] for row in rows] == ["1.5", "0.5", "1.25", "0.25", "0.125"]
    assert rows[0]["accuracy"] == ""


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "\tx"])
def test_a_spreadsheet_finds_no_formula_in_the_csv(name: str) -> None:
    run = replace(_run([-0.5]), preset=name)

    rows = list(csv.DictReader(io.StringIO(runs_to_csv([run]))))

    assert rows[1]["preset"] == f"'{name}"
    assert rows[1]["loss"] == "-0.5"


def test_the_json_export_holds_everything() -> None:
    run = _run([0.5])
    value = run_to_json(run)
    assert value["metrics"] == outcome_of(run)
    assert [event["event"] for event in value["events"]][-1] == "evaluated"
    assert value["spec"]["experiment"]["title"] == "{}"


def test_a_piece_without_a_measured_time_is_no_point_of_that_curve() -> None:
    first = Progressed(1, 1, 2, 0.5, None, 0.0, 30.0)
    second = Progressed(1, 2, 2, 0.25, None, 4.0, 30.0)

    steps = series_of([first, second]).steps

    assert steps["host_ms_per_batch"].ys == (4.0,)
    assert steps["loss"].ys == (0.5, 0.0)
    assert "accuracy" not in steps
