"""From what a training loop reports to the events of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ipu_runtime.engine.watch.observer import Progress
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.request import PlanRequest
from workbench.runs import run_observer
from workbench.runs.events import (
    Compiled,
    Compiling,
    EpochEnded,
    Evaluated,
    Event,
    Paused,
    Progressed,
    WentOn,
)
from workbench.runs.run_context import RunContext, RunControl
from workbench.runs.run_observer import RunObserver


def _observer() -> tuple[RunObserver, list[Event], RunControl]:
    events: list[Event] = []
    control = RunControl()
    plan = Plan(PlanRequest(ModelSpec((), ()), batch_size=16, batches=1), (), 2)
    context = RunContext(events.append, control, Path(), plan)
    return RunObserver(context), events, control


def _progress(step: int, step_ms: float, phase: str = "train") -> Progress:
    return Progress(phase, 1, step, 10, {"loss": 0.5, "accuracy": 0.25}, step_ms, 224.0)


def test_pieces_become_progress_and_their_mean_the_epochs_step_time() -> None:
    observer, events, _ = _observer()
    observer.epoch_began()
    observer.progressed(_progress(8, 1.0))
    observer.progressed(_progress(10, 6.0))
    observer.epoch_ended(1, {"loss": 0.5, "accuracy": 0.25})
    assert events[0] == Progressed(
        1, 8, 10, 0.5, 0.25, 1.0, 224.0, replicas=2, batch_size=16
    )
    ended = events[-1]
    assert isinstance(ended, EpochEnded)
    assert ended.host_step_ms == pytest.approx((8 * 1.0 + 2 * 6.0) / 10)
    assert ended.ipu_step_us == 224.0
    assert ended.ipu_us_per_batch == 112.0
    assert ended.host_samples_per_second == pytest.approx(2 * 16 / 2.0e-3)


def test_an_epoch_that_ends_without_a_piece_has_the_step_time_of_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Plan, "ipu_step_us", 224.0)
    observer, events, _ = _observer()
    observer.epoch_goes_on({"steps": 9, "step_ms_sum": 27.0, "seconds": 1.0})
    observer.epoch_ended(1, {"loss": 0.5})
    (ended,) = events
    assert isinstance(ended, EpochEnded)
    assert (ended.host_step_ms, ended.ipu_step_us) == (3.0, 224.0)


def test_a_pause_is_told_and_is_no_time_of_the_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    observer, events, control = _observer()
    now = [50.0]
    monkeypatch.setattr(run_observer.time, "perf_counter", lambda: now[0])

    def go_on_after_a_while(event: Event) -> None:
        events.append(event)
        if isinstance(event, Paused):
            now[0] += 1000.0
            control.resume()

    observer = RunObserver(replace(observer._context, emit=go_on_after_a_while))
    observer.epoch_began()
    now[0] += 2.0
    control.pause()
    assert not observer.should_stop()
    assert not observer.should_stop()
    observer.epoch_ended(1, {"loss": 0.5})
    assert [type(event) for event in events] == [Paused, WentOn, EpochEnded]
    assert isinstance(events[-1], EpochEnded)
    assert events[-1].seconds == 2.0


def test_evaluation_is_not_streamed() -> None:
    observer, events, _ = _observer()
    observer.progressed(_progress(5, 1.0, "evaluate"))
    observer.evaluated({"loss": 0.5})
    assert events == [Evaluated(0.5, None)]


def test_a_program_that_is_ready_already_is_not_announced_again() -> None:
    observer, events, _ = _observer()
    for seconds in (3.0, 0.01, 2.0):
        observer.compiling("training")
        observer.compiled("training", seconds, 40.0)
    assert events == [
        Compiling("compiling training"),
        Compiled("training", 3.0, 40.0),
        Compiled("training", 2.0, 40.0),
    ]


def test_stopping_is_remembered() -> None:
    observer, _, control = _observer()
    assert not observer.should_stop()
    control.stop.set()
    assert observer.should_stop()
    assert observer.stopped
