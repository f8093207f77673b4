"""Runs that go wrong while they train: losses that explode, foreign checkpoints."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest
from tensorflow.python.client import _pywrap_events_writer

from workbench.experiment.experiment_loading import load_experiment
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.headless.main import main
from workbench.runs.events import EpochEnded, Event, RunEnded, RunStatus
from workbench.runs.run_checkpoint import Checkpoint, save
from workbench.runs.run_context import RunControl
from workbench.runs.run_store import list_runs, open_run
from workbench.runs.runner import run_experiment

pytestmark = pytest.mark.slow

SMALL = ("data.train_samples=256", "data.test_samples=64", "train.epochs=2")
PRESETS = {"cpu": "mnist-cpu", "ipu_strategy": "mnist-dense"}
APIS = (pytest.param("cpu", marks=pytest.mark.thorough), "ipu_strategy")


def _spec(api: str, *changes: str) -> ExperimentSpec:
    spec = load_experiment(PRESETS[api], [*SMALL, *changes]).spec
    assert spec is not None
    assert spec.execution.api == api
    return spec


def _run(spec: ExperimentSpec, **options: Any) -> tuple[RunStatus, list[Event]]:
    events: list[Event] = []
    return run_experiment(spec, RunControl(), events.append, **options), events


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("choice", ["fail", "continue"])
def test_a_loss_that_is_no_number(
    api: str, choice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = ("train.learning_rate=1e30", "train.optimizer=sgd")
    status, events = _run(_spec(api, *changes, f"train.on_nonfinite={choice}"))
    (stored,) = list_runs()
    ended = [event for event in stored.events() if isinstance(event, EpochEnded)]
    assert isinstance(events[-1], RunEnded)
    if choice == "fail":
        assert status is stored.status is RunStatus.FAILED
        # An epoch this short may end before its first report.
        told = r"the loss is nan (at step \d+ of \d+ )?in epoch 1; try a smaller"
        assert re.match(told, stored.message)
        assert len(ended) <= 1
    else:
        assert status is stored.status is RunStatus.FINISHED
        assert [event.epoch for event in ended] == [1, 2]
        assert all(math.isnan(event.loss) for event in ended)
    for words in (["show", stored.run_id], ["list"]):
        assert main(["runs", *words], {}, None) == 0  # type: ignore[arg-type]
    assert "nan" in capsys.readouterr().out


@pytest.mark.parametrize("api", APIS)
def test_a_checkpoint_of_another_model_is_refused_in_words(api: str) -> None:
    spec = _spec(api)
    status, events = _run(spec)
    assert status is RunStatus.FINISHED
    (stored,) = list_runs()
    path = stored.directory / "run.json"
    description = json.loads(path.read_text())
    path.write_text(json.dumps({**description, "status": "killed"}))
    foreign = Checkpoint(1, (np.zeros((3, 3), np.float32),), (np.int64(1),))
    for file in (stored.directory / "checkpoints").iterdir():
        file.unlink()
    save(stored.directory / "checkpoints", foreign)
    status, events = _run(spec, resume=stored.run_id)
    assert status is RunStatus.FAILED
    assert isinstance(events[-1], RunEnded)
    assert "do not fit the model: it holds 1 arrays" in events[-1].message
    again = open_run(stored.run_id)
    assert again.status is RunStatus.FAILED
    # What was trained before the checkpoint's end is still in the record.
    assert [e.epoch for e in again.events() if isinstance(e, EpochEnded)] == [1]


class _FullDisk:
    """A writer of summaries that cannot write."""

    def __init__(self, path: bytes) -> None:
        self._path = path.decode()

    def WriteEvent(self, event: object) -> None:
        """Take it in."""

    def Flush(self) -> None:
        """Say what TensorFlow says."""
        raise RuntimeError(f"{self._path}; No space left on device")

    Close = Flush


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_summaries_that_cannot_be_written_are_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TensorFlow writes them in a thread, which prints what it raises elsewhere too."""
    monkeypatch.setattr(_pywrap_events_writer, "EventsWriter", _FullDisk)
    spec = load_experiment("mnist-dense", [*SMALL, "execution.api=ipu_estimator"]).spec
    assert spec is not None
    status, _ = _run(spec)
    assert status is RunStatus.FAILED
    (stored,) = list_runs()
    assert "No space left on device" in stored.message
