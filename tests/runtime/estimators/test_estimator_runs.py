"""Experiments with estimators: events, resuming, evaluation of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.run_recorder import Recorder, run_preset
from workbench.runs.events import (
    EpochEnded,
    Evaluated,
    Progressed,
    RunEnded,
    RunStatus,
)
from workbench.runs.run_store import open_run

pytestmark = pytest.mark.slow

SMALL = (
    "data.batch_size=8",
    "data.train_samples=64",
    "data.test_samples=32",
    "train.optimizer=adam",
    "train.learning_rate=0.001",
    "train.epochs=3",
    "data.shuffle=false",
    "train.steps_per_epoch=8",
    "execution.steps_per_execution=epoch",
)
PRESETS = (
    "cifar10-ipu-strategy",
    "cifar10-ipu-estimator",
    "cifar10-ipu-estimator-replica",
    "cifar10-ipu-pipeline-estimator",
)


def _of(kind: type, recorder: Recorder) -> list[Any]:
    return [event for event in recorder.events if isinstance(event, kind)]


def _trained(preset: str) -> Recorder:
    """Run a preset to its end and look at what it tells."""
    recorder = run_preset(preset, SMALL)
    assert recorder.status is RunStatus.FINISHED, _of(RunEnded, recorder)
    epochs = _of(EpochEnded, recorder)
    assert [event.epoch for event in epochs] == [1, 2, 3]
    assert epochs[-1].loss < epochs[0].loss
    assert all(event.ipu_step_us > 0 for event in epochs)
    assert all(event.accuracy is not None for event in _of(Progressed, recorder))
    return recorder


@pytest.mark.thorough
@pytest.mark.parametrize("preset", PRESETS)
def test_presets_train_evaluate_and_reproduce(preset: str) -> None:
    recorder = _trained(preset)
    again = run_preset(preset, SMALL)
    assert _of(Evaluated, again)[0].loss == _test_loss(recorder)
    assert _of(Evaluated, again)[0].accuracy == _of(Evaluated, recorder)[0].accuracy


def _test_loss(recorder: Recorder) -> Any:
    # Convolutions add in the order in which threads finish.
    return pytest.approx(_of(Evaluated, recorder)[0].loss, rel=1e-5)


def test_a_resumed_run_ends_like_an_uninterrupted_one(tmp_path: Path) -> None:
    preset = "cifar10-estimator-cnn"
    whole = _trained(preset)
    stopped = run_preset(preset, SMALL, stop_in_epoch=2)
    assert stopped.status is RunStatus.STOPPED
    # Where pieces are fast, the one that asks to stop is its epoch's last.
    ended = [event.epoch for event in _of(EpochEnded, stopped)]
    assert ended in ([1], [1, 2])
    model_dir = open_run(stopped.run_id).directory / "checkpoints" / "model"
    cut = model_dir / "model.ckpt-9.data-00000-of-00001.tempstate1"
    cut.touch()
    resumed = run_preset(preset, SMALL, resume=stopped.run_id)
    assert not cut.exists()
    again = [event.epoch for event in _of(EpochEnded, resumed)]
    assert ended + again == [1, 2, 3]
    assert _of(Evaluated, resumed)[0].loss == _test_loss(whole)
    assert _of(Evaluated, resumed)[0].accuracy == _of(Evaluated, whole)[0].accuracy


def test_test_only_evaluates_the_checkpoint_of_a_directory(tmp_path: Path) -> None:
    model_dir = f"execution.model_dir={tmp_path / 'model'}"
    preset = "cifar10-estimator-cnn"
    trained = run_preset(preset, (*SMALL, model_dir, "train.epochs=1"))
    tested = run_preset(preset, (*SMALL, model_dir, "train.test_only=true"))
    assert _of(Evaluated, tested)[0].loss == _test_loss(trained)
    assert _of(EpochEnded, tested) == []
    empty = f"execution.model_dir={tmp_path / 'empty'}"
    failed = run_preset(preset, (*SMALL, empty, "train.test_only=true"))
    assert failed.status is RunStatus.FAILED
    assert "has no checkpoint to evaluate" in _of(RunEnded, failed)[0].message
