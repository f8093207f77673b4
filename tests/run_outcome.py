"""What a run has come to, besides the time that it took: all of it can be compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.runs.events import EpochEnded, Evaluated, RunStatus
from workbench.runs.run_checkpoint import latest, load
from workbench.runs.run_store import StoredRun

TOLD = ("epochs", "loss", "accuracy", "ipu_step_us", "test_loss", "test_accuracy")
"""What a summary says besides measured times."""


def outcome(run: StoredRun) -> tuple[Any, ...]:
    """Return what a finished run tells, and the bytes of all that it has trained."""
    ends = [e for e in run.events() if isinstance(e, EpochEnded | Evaluated)]
    told = [(getattr(e, "epoch", "test"), e.loss, e.accuracy) for e in ends]
    summary = {name: run.summary.get(name) for name in TOLD}
    return run.status, told, summary, _trained(run)


def _trained(run: StoredRun) -> tuple[int, int, list[bytes]]:
    path = latest(run.directory / "checkpoints")
    assert path is not None
    state = load(path)
    arrays = [*state.weights, *state.optimizer]
    if "model_checkpoint" in state.extra:
        # Late, because only an estimator's variables are in a file of TensorFlow's.
        import tensorflow as tf

        directory = path.parent / "model" / str(state.extra["model_checkpoint"])
        reader = tf.train.load_checkpoint(str(directory))
        names = sorted(reader.get_variable_to_shape_map())
        arrays += [reader.get_tensor(name) for name in names]
    return state.epoch, state.step, [np.asarray(item).tobytes() for item in arrays]


def assert_equal(run: StoredRun, reference: StoredRun) -> None:
    """Hold that a run has come to what another one has."""
    assert run.run_id != reference.run_id
    assert run.status is RunStatus.FINISHED
    assert outcome(run) == outcome(reference)
    assert run.summary["host_step_ms"] > 0
    assert run.summary["seconds"] > 0
