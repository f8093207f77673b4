"""Real runs of plain Keras on the CPU, on a few hundred samples."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable
from types import SimpleNamespace

import keras
import pytest

from ipu_runtime.engine.watch.observer import Progress
from ipu_runtime.frameworks.tensorflow_graphs import FuncGraph
from workbench.backends import cpu
from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.runs.events import (
    Compiled,
    EpochEnded,
    Evaluated,
    Event,
    Progressed,
    RunEnded,
    RunStarted,
    RunStatus,
)
from workbench.runs.run_context import RunControl
from workbench.runs.run_store import open_run
from workbench.runs.runner import run_experiment

pytestmark = pytest.mark.slow

SMALL = (
    "execution.api=cpu",
    "data.train_samples=200",
    "data.test_samples=70",
    "train.steps_per_epoch=0",
    "model.layers[1].filters=4",
    "model.layers[3].filters=4",
)


def _spec(preset: str, *changes: str) -> ExperimentSpec:
    loaded = load_experiment(preset, [*SMALL, *changes])
    assert loaded.spec is not None, loaded.problems
    return loaded.spec


def _run(
    spec: ExperimentSpec,
    on_event: Callable[[Event, RunControl], None] | None = None,
    resume: str | None = None,
) -> list[Event]:
    events: list[Event] = []
    control = RunControl()

    def emit(event: Event) -> None:
        events.append(event)
        if on_event:
            on_event(event, control)

    run_experiment(spec, control, emit, preset="test", resume=resume)
    return events


def _of(kind: type, events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


def test_a_run_tells_everything_in_order_and_records_it() -> None:
    events = _run(_spec("mnist-cpu", "train.epochs=2"))
    kinds = [type(event) for event in events]
    assert kinds[0] is RunStarted
    assert kinds[-2:] == [Evaluated, RunEnded]
    assert kinds.index(Compiled) < kinds.index(Progressed) < kinds.index(EpochEnded)
    epochs = _of(EpochEnded, events)
    assert [event.epoch for event in epochs] == [1, 2]  # type: ignore[union-attr]
    last = [event for event in events if isinstance(event, Progressed)][-1]
    assert (last.step, last.steps) == (4, 4)
    assert last.host_step_ms > 0
    assert (last.ipu_step_us, last.host_samples_per_second > 0) == (0.0, True)
    started = events[0]
    assert isinstance(started, RunStarted)
    stored = open_run(started.run_id)
    assert stored.status is RunStatus.FINISHED
    assert [type(event) for event in stored.events()] == kinds
    plan = json.loads((stored.directory / "plan.json").read_text())
    assert (plan["modelled"], plan["ipu_step_us"]) == (False, None)


def test_same_seed_same_numbers_another_seed_others() -> None:
    brief = ("train.epochs=1", "train.evaluate=false")
    losses = [
        [event.loss for event in _of(EpochEnded, _run(_spec("mnist-cpu", *changes)))]  # type: ignore[union-attr]
        for changes in (brief, brief, (*brief, "experiment.seed=1"))
    ]
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def test_a_step_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = []
    step = keras.Model.train_step

    def counted(model: keras.Model, data: object) -> object:
        traced.append(data)
        return step(model, data)

    monkeypatch.setattr(keras.Model, "train_step", counted)
    _run(_spec("mnist-cpu", "train.epochs=2", "train.evaluate=false"))
    assert len(traced) == 1


def test_resumed_run_ends_like_an_uninterrupted_one() -> None:
    spec = _spec("mnist-cpu", "train.epochs=3", "train.optimizer=momentum")
    whole = _run(spec)

    def stop_in_second_epoch(event: Event, control: RunControl) -> None:
        if isinstance(event, EpochEnded):
            control.stop.set()

    stopped = _run(spec, stop_in_second_epoch)
    assert isinstance(stopped[-1], RunEnded)
    assert stopped[-1].status is RunStatus.STOPPED
    assert isinstance(stopped[0], RunStarted)
    resumed = _run(spec, resume=stopped[0].run_id)
    assert [e.epoch for e in resumed if isinstance(e, EpochEnded)] == [2, 3]
    kept = [e for e in open_run(stopped[0].run_id).events()]
    for number in range(2, 4):
        first, second = (
            next(e for e in run if isinstance(e, EpochEnded) and e.epoch == number)
            for run in (whole, kept)
        )
        assert first.loss == second.loss
    assert _of(Evaluated, whole) == _of(Evaluated, resumed)


def test_a_pause_is_no_step_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    told: list[float] = []

    class Pausing:
        def compiling(self, program: str) -> None: ...

        def compiled(self, *facts: object) -> None: ...

        def progressed(self, progress: Progress) -> None:
            told.append(progress.host_step_ms)

        def should_stop(self) -> bool:
            nonlocal now
            now += 1000.0
            return False

    monkeypatch.setattr(cpu, "time", SimpleNamespace(perf_counter=lambda: now))
    reporter = cpu._Reporter(Pausing(), SimpleNamespace(ipu_step_us=1.0, compile_s=1.0))  # type: ignore[arg-type]
    reporter.set_params({"steps": 3})
    reporter.on_epoch_begin(0)
    for batch in range(3):
        now += 0.25
        reporter.on_train_batch_end(batch, {"loss": 1.0})
    assert told == pytest.approx([250.0, 250.0])


def test_a_loss_that_is_no_number_fails_the_run_or_goes_on() -> None:
    wild = ("train.epochs=1", "train.learning_rate=1e30")
    failed = _run(_spec("mnist-cpu", *wild))[-1]
    assert isinstance(failed, RunEnded)
    assert failed.status is RunStatus.FAILED
    assert "train.learning_rate" in failed.message
    assert re.search(r"at step \d+ of 4 in epoch 1", failed.message)
    went_on = _run(_spec("mnist-cpu", *wild, "train.on_nonfinite=continue"))[-1]
    assert isinstance(went_on, RunEnded)
    assert went_on.status is RunStatus.FINISHED


def test_padding_does_not_change_what_is_measured() -> None:
    """Evaluation over 70 samples: padded to whole batches or with a partial one."""
    changes = ("train.epochs=1", "train.learning_rate=0", "data.shuffle=false")
    padded = _of(Evaluated, _run(_spec("mnist-padded", *changes)))[0]
    partial = _of(Evaluated, _run(_spec("mnist-cpu", *changes)))[0]
    assert isinstance(padded, Evaluated)
    assert isinstance(partial, Evaluated)
    assert padded.accuracy == pytest.approx(partial.accuracy, abs=1e-6)
    assert partial.accuracy is not None
    assert (partial.accuracy * 70) == pytest.approx(
        round(partial.accuracy * 70), abs=1e-4
    )


def test_a_backend_that_breaks_is_a_failed_run_with_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(spec: object, context: object) -> None:
        raise RuntimeError("out of luck\nsecond line")

    monkeypatch.setattr("workbench.runs.runner.backend_of", lambda api: broken)
    events = _run(_spec("mnist-cpu"))
    ended, started = events[-1], events[0]
    assert isinstance(ended, RunEnded)
    assert isinstance(started, RunStarted)
    assert ended.message == "RuntimeError: out of luck"
    stored = open_run(started.run_id)
    assert stored.status is RunStatus.FAILED
    assert "out of luck" in (stored.directory / "run.log").read_text()


def test_a_run_leaves_no_graph_behind() -> None:
    spec = _spec("mnist-cpu", "train.epochs=1", "train.evaluate=false")

    def graphs() -> int:
        return sum(isinstance(item, FuncGraph) for item in gc.get_objects())

    before = graphs()
    _run(spec)
    assert graphs() <= before
