"""The epochs of a Keras model: training, checkpoints, evaluation, stopping."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from workbench.core.checkpoint import Checkpoint, keras_state, load, restore_keras, save
from workbench.core.events import Compiling
from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.run_context import RunContext
from workbench.core.run_observer import RunObserver

Logs = Mapping[str, float]


def train_and_evaluate(
    spec: ExperimentSpec,
    context: RunContext,
    observer: RunObserver,
    model: Any,
    train_epoch: Callable[[int], Logs],
    evaluate: Callable[[], Logs],
) -> None:
    """Train epoch by epoch, a checkpoint after each, then evaluate.

    Args:
        spec: The experiment.
        context: The run.
        observer: Who watches the loops; a loop that it stops is not counted.
        model: The compiled model; a resumed run's checkpoint is put into it.
        train_epoch: Trains one epoch, counted from 1, and returns its metrics.
        evaluate: Goes through the test data and returns the metrics.
    """
    metrics: list[Mapping[str, Any]] = []
    if context.checkpoint is not None:
        checkpoint = load(context.checkpoint)
        restore_keras(model, checkpoint)
        metrics += checkpoint.metrics
    for epoch in range(context.first_epoch, spec.train.epochs + 1):
        if observer.should_stop():
            return
        observer.epoch_began()
        logs = train_epoch(epoch)
        if observer.stopped:
            return
        observer.epoch_ended(epoch, logs)
        metrics.append({"epoch": epoch, **logs})
        state = Checkpoint(epoch, *keras_state(model), metrics=tuple(metrics))
        save(context.directory / "checkpoints", state)
    if spec.train.evaluate and not observer.should_stop():
        context.emit(Compiling("evaluating on the test data"))
        logs = evaluate()
        if not observer.stopped:
            observer.evaluated(logs)
