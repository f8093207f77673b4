"""The epochs of a Keras model: training, checkpoints, evaluation, stopping."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ipu_runtime.engine.watch.checkpointer import checkpointed_by
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.runs.events import Compiling
from workbench.runs.keras_keeper import KerasKeeper
from workbench.runs.run_context import RunContext
from workbench.runs.run_observer import RunObserver

Logs = Mapping[str, float]


def train_and_evaluate(
    spec: ExperimentSpec,
    context: RunContext,
    observer: RunObserver,
    model: Any,
    train_epoch: Callable[[int], Logs],
    evaluate: Callable[[], Logs],
) -> None:
    """Train epoch by epoch, with checkpoints, then evaluate.

    Args:
        spec: The experiment.
        context: The run.
        observer: Who watches the loops; a loop that it stops is not counted.
        model: The compiled model; a resumed run's checkpoint is put into it.
        train_epoch: Trains one epoch, counted from 1, and returns its metrics; goes
            on where the current keeper says.
        evaluate: Goes through the test data and returns the metrics.
    """
    every_s = spec.execution.checkpoint_every_s
    keeper = KerasKeeper(
        context.directory / "checkpoints", observer, model, every_s, context.instance
    )
    if context.checkpoint is not None:
        keeper.restore(context.checkpoint)
    for epoch in range(context.first_epoch, spec.train.epochs + 1):
        if observer.should_stop():
            return
        observer.epoch_began()
        with checkpointed_by(keeper):
            logs = train_epoch(epoch)
        if observer.stopped:
            return
        observer.epoch_ended(epoch, logs)
        keeper.epoch_ended(epoch, logs)
    alone = context.instance.index == 0
    if spec.train.evaluate and alone and not observer.should_stop():
        context.emit(Compiling("evaluating on the test data"))
        logs = evaluate()
        if not observer.stopped:
            observer.evaluated(logs)
