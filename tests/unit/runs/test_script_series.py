"""Curves of scripts: one series per call, and one line through all that train."""

from __future__ import annotations

import math

from workbench.comparing.outcome import outcome_of
from workbench.experiment.printed_figures import PrintedFigures
from workbench.runs.event_json import event_from_json, event_to_json
from workbench.runs.events import (
    CallBegan,
    EpochEnded,
    Evaluated,
    Event,
    Progressed,
    RunStatus,
)
from workbench.runs.run_record import RunRecord
from workbench.runs.run_store import open_run
from workbench.runs.run_view import RunView
from workbench.runs.series import series_of
from workbench.runs.verdict import verdict


def began(call: str, kind: str, steps: int = 4) -> CallBegan:
    return CallBegan(call, kind, "model", 2, steps)


def epoch(call: str, number: int, loss: float) -> EpochEnded:
    return EpochEnded(number, loss, None, 2.0, 30.0, 0.5, call, {"loss": loss})


def execution(call: str, number: int, **numbers: float) -> Progressed:
    loss = numbers.get("loss", math.nan)
    return Progressed(1, number, 0, loss, None, 2.0, 30.0, call, dict(numbers))


def test_two_fits_are_two_series_and_one_line() -> None:
    events: list[Event] = [
        began("fit 1", "fit"),
        epoch("fit 1", 1, 4.0),
        epoch("fit 1", 2, 3.0),
        began("validate 1", "validate"),
        epoch("validate 1", 2, 9.0),
        began("fit 2", "fit"),
        epoch("fit 2", 1, 2.0),
    ]
    series = series_of(events)
    assert series.calls["fit 2"].epochs["loss"].xs == (1.0,)
    assert series.calls["validate 1"].epochs["loss"].ys == (9.0,)
    line = series.epochs["loss"]
    assert (line.xs, line.ys) == ((1.0, 2.0, 3.0), (4.0, 3.0, 2.0))


def test_programs_of_a_scripts_own_count_executions_until_something_trains() -> None:
    events: list[Event] = [
        began("run 1", "run", 0),
        *(execution("run 1", at, loss=1.0 / at) for at in (1, 2, 5)),
    ]
    curve = series_of(events).curve("loss")
    assert (curve.xs, curve.unit) == ((1.0, 2.0, 5.0), "execution")
    events += [began("fit 1", "fit"), epoch("fit 1", 1, 7.0)]
    series = series_of(events)
    assert series.curve("loss").ys == (7.0,)
    assert series.calls["run 1"].curve("loss").ys == (1.0, 0.5, 0.2)


def test_a_call_without_a_loss_has_no_curve_of_one() -> None:
    events = [began("predict 1", "predict"), execution("predict 1", 1)]
    assert set(series_of(events).calls["predict 1"].steps) == {
        "host_ms_per_batch",
        "ipu_us_per_batch",
    }


def test_an_experiments_events_have_no_keys_of_scripts() -> None:
    plain = EpochEnded(1, 2.0, None, 1.0, 1.0, 1.0)
    assert not {"call", "metrics"} & set(event_to_json(plain))
    for event in (epoch("fit 1", 1, 2.0), began("fit 1", "fit")):
        assert event_from_json(event_to_json(event)) == event


def test_records_of_scripts_have_outcomes_and_a_verdict(home: object) -> None:
    record = RunRecord.create({"script": {"file": "a.py"}}, "a.py")
    events: list[Event] = [
        began("run 1", "run", 0),
        execution("run 1", 1, loss=3.0),
        execution("run 1", 2, loss=2.0),
        Evaluated(5.0, 0.5, "evaluate 1", {"loss": 5.0}),
    ]
    record.append_all([(event, 1.0) for event in events])
    record.finish(RunStatus.FINISHED)
    run = open_run("latest")
    assert run.script == {"file": "a.py"}
    known = outcome_of(run)
    assert (known["loss_last"], known["loss_best"]) == (2.0, 2.0)
    assert known["test_accuracy"] == 0.5
    monitor = RunView.of(run.preset, run.tables, run.timed_events())
    monitor.status = run.status
    assert (
        verdict(monitor, PrintedFigures())
        == "finished after 1 call; loss 2 after 2 executions"
    )
