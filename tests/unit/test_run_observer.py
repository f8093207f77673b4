"""From what a training loop reports to the events of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipu_runtime.engine.observer import Progress
from workbench.core.events import (
    Compiled,
    Compiling,
    EpochEnded,
    Evaluated,
    Event,
    Progressed,
)
from workbench.core.run_context import RunContext, RunControl
from workbench.core.run_observer import RunObserver


def _observer() -> tuple[RunObserver, list[Event], RunControl]:
    events: list[Event] = []
    control = RunControl()
    return RunObserver(RunContext(events.append, control, Path())), events, control


def _progress(step: int, step_ms: float, phase: str = "train") -> Progress:
    return Progress(phase, 1, step, 10, {"loss": 0.5, "accuracy": 0.25}, step_ms, 224.0)


def test_pieces_become_progress_and_their_mean_the_epochs_step_time() -> None:
    observer, events, _ = _observer()
    observer.epoch_began()
    observer.progressed(_progress(8, 1.0))
    observer.progressed(_progress(10, 6.0))
    observer.epoch_ended(1, {"loss": 0.5, "accuracy": 0.25})
    assert events[0] == Progressed(1, 8, 10, 0.5, 0.25, 1.0, 224.0)
    ended = events[-1]
    assert isinstance(ended, EpochEnded)
    assert ended.host_step_ms == pytest.approx((8 * 1.0 + 2 * 6.0) / 10)
    assert ended.ipu_step_us == 224.0


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
