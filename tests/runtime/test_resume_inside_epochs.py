"""A run that is stopped inside an epoch goes on there, and ends as if it never was.

`make kill-test` goes through all ways, `make test` through the quick ones.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.runtime.tiny_preset import EVERY_PIECE, tiny_spec
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.runs.events import EpochEnded, Evaluated, Event, Progressed
from workbench.runs.run_checkpoint import latest, load
from workbench.runs.run_context import RunControl
from workbench.runs.run_store import StoredRun, open_run
from workbench.runs.runner import run_experiment
from workbench.store_json import read_lines

pytestmark = pytest.mark.slow

WAYS = {
    "cpu": ("execution.api=cpu",),
    "replicas, several executions": (
        "execution.api=ipu_strategy",
        "execution.steps_per_execution=4",
        "execution.gradient_accumulation=2",
        "ipu.auto_select_ipus=2",
    ),
    "pipeline": (
        "execution.api=ipu_strategy",
        "execution.gradient_accumulation=4",
        "pipeline.stages=[0, 0, 1, 1]",
        "ipu.auto_select_ipus=2",
    ),
    "estimator": (
        "execution.api=ipu_estimator",
        "execution.gradient_accumulation=4",
        "ipu.auto_select_ipus=2",
    ),
    "pipeline estimator": (
        "execution.api=ipu_pipeline_estimator",
        "execution.gradient_accumulation=4",
        "pipeline.stages=[0, 0, 1, 1]",
        "ipu.auto_select_ipus=2",
    ),
}
LONG = pytest.mark.thorough
QUICK = (
    "replicas, several executions",
    pytest.param("pipeline estimator", marks=LONG),
)
TRIED = WAYS if "IPU_WORKBENCH_KILLS" in os.environ else QUICK


@dataclass(frozen=True)
class StopsInSecondEpoch(RunControl):
    """Stops a run that has a checkpoint inside its second epoch."""

    runs: Path = Path()

    def should_stop(self) -> bool:
        if any(self.runs.glob("*/checkpoints/epoch-000001-step-*.npz")):
            self.stop.set()
        return super().should_stop()


def _run(spec: ExperimentSpec, control: RunControl, resume: str | None = None) -> Any:
    events: list[Event] = []
    run_experiment(spec, control, events.append, resume=resume)
    return events, open_run(resume or "latest")


def _state(run: StoredRun) -> list[bytes]:
    path = latest(run.directory / "checkpoints")
    assert path is not None
    kept = load(path)
    assert (kept.epoch, kept.step) == (2, 0)
    arrays = [*kept.weights, *kept.optimizer]
    if "model_checkpoint" in kept.extra:
        directory = path.parent / "model" / str(kept.extra["model_checkpoint"])
        reader = tf.train.load_checkpoint(str(directory))
        names = sorted(reader.get_variable_to_shape_map())
        arrays += [reader.get_tensor(name) for name in names]
    return [np.asarray(array).tobytes() for array in arrays]


def _outcome(run: StoredRun) -> list[Any]:
    ends = [e for e in run.events() if isinstance(e, EpochEnded | Evaluated)]
    return [(type(e), e.loss, e.accuracy) for e in ends]


@pytest.mark.parametrize("way", TRIED)
def test_a_stopped_epoch_is_not_begun_again(
    way: str, tmp_path: Path, home: Path
) -> None:
    _, whole = _run(tiny_spec(tmp_path, *WAYS[way]), RunControl())
    spec = tiny_spec(tmp_path, *WAYS[way], EVERY_PIECE)
    _, stopped = _run(spec, StopsInSecondEpoch(runs=home / "runs"))
    assert [e.epoch for e in stopped.events() if isinstance(e, EpochEnded)] == [1]
    events, resumed = _run(spec, RunControl(), stopped.run_id)
    (row,) = [
        row
        for row in read_lines(resumed.directory / "metrics.jsonl")
        if row["event"] == "resumed"
    ]
    assert row["first_epoch"] == 2
    assert row["step"] > 0
    assert min(e.step for e in events if isinstance(e, Progressed)) > row["step"]
    assert _outcome(resumed) == _outcome(whole)
    assert _state(resumed) == _state(whole)
    told = ("epochs", "loss", "accuracy", "ipu_step_us", "test_loss", "test_accuracy")
    assert [resumed.summary[name] for name in told] == [
        whole.summary[name] for name in told
    ]
