"""Names tell compared runs apart."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.ui.runs.scripted_runs import record_run
from workbench.comparing.compare import compare_runs
from workbench.comparing.run_names import short_names, value_words
from workbench.runs.run_store import StoredRun, open_run


def _run(*changes: str, preset: str = "mnist-ipu-pipelined") -> StoredRun:
    return open_run(record_run(preset, changes))


def test_names_are_the_values_that_differ() -> None:
    runs = [
        _run("train.learning_rate=0.02"),
        _run("train.learning_rate=0.05"),
        _run("train.learning_rate=0.05", "pipeline.schedule=Interleaved"),
        _run(preset="mnist-dense"),
    ]
    names = compare_runs(runs).names
    assert len(set(names.names)) == 4
    assert names.names[0] == "Grouped, learning_rate 0.02"
    assert names.names[3].startswith("mnist-dense")  # It has no schedule to be named.
    assert names.values[2] == "Interleaved, 0.05"


def test_runs_with_the_same_settings_are_told_apart_by_time() -> None:
    runs = [
        replace(_run(), created=f"2026-03-01T12:0{minute}:00+00:00")
        for minute in range(2)
    ]
    first, second = compare_runs(runs).names.names
    assert re.fullmatch(r"\d\d:00", first)
    assert second == first[:-1] + "1"


def test_the_day_is_said_where_runs_are_of_several() -> None:
    days = ("2026-03-01T12:00:05+00:00", "2026-03-02T12:00:05+00:00")
    runs = [replace(_run(), created=day) for day in days]
    first, second = compare_runs(runs).names.names
    assert re.fullmatch(r"\d\d \w+ \d\d:\d\d", first)
    assert second != first


def test_runs_of_one_second_are_told_apart_too() -> None:
    run = replace(_run(), created="2026-03-01T12:00:00+00:00")
    names = compare_runs([run, replace(run, run_id="other")]).names.names
    assert names == (run.run_id, "other")


def test_short_names_stay_different() -> None:
    assert short_names(
        ["ipu.matmuls.options", "ipu.convs.options", "train.epochs"]
    ) == {
        "ipu.matmuls.options": "matmuls.options",
        "ipu.convs.options": "convs.options",
        "train.epochs": "epochs",
    }


def test_stages_are_said_by_how_many_layers_each_has() -> None:
    assert value_words("pipeline.stages", [0, 0, 1, 2]) == "3 stages 2+1+1"
    assert value_words("pipeline.stages", []) == "no pipeline"
    assert value_words("pipeline.stages", [0, 1, 0]) == "[0, 1, 0]"
