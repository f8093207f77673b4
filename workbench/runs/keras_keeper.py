"""Keeps a Keras model's training: after every epoch, and inside long ones."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ipu_runtime.engine.watch.checkpointer import PartOfEpoch
from ipu_runtime.system.instances import Instance
from workbench.runs.run_checkpoint import (
    Checkpoint,
    keras_state,
    load,
    restore_keras,
    save,
)
from workbench.runs.run_observer import RunObserver

_TIMES = "times"


class CheckpointClock:
    """Tells when the next checkpoint inside an epoch is due."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._saved_at = time.monotonic()

    def due(self) -> bool:
        """Whether the last checkpoint is old enough."""
        return self.due_in_s() <= 0

    def due_in_s(self) -> float:
        """Return the time until it is; infinite if it never is."""
        if not self._every_s:
            return math.inf
        return self._saved_at + self._every_s - time.monotonic()

    def saved(self) -> None:
        """Count from here: the run is safe."""
        self._saved_at = time.monotonic()


class KerasKeeper:
    """Writes a run's checkpoints and goes on from one; an engine's `Checkpointer`."""

    def __init__(
        self,
        directory: Path,
        observer: RunObserver,
        model: Any,
        every_s: float,
        instance: Instance,
    ) -> None:
        self._directory = directory
        self._observer = observer
        self._model = model
        self._clock = CheckpointClock(every_s)
        self._writes = instance.index == 0
        self._metrics: list[Mapping[str, Any]] = []
        self._epochs_done = 0
        self._left: Checkpoint | None = None

    def restore(self, path: Path) -> None:
        """Put a checkpoint into the model; the next epoch goes on where it was."""
        checkpoint = load(path)
        restore_keras(self._model, checkpoint)
        self._metrics += checkpoint.metrics
        self._epochs_done = checkpoint.epoch
        self._left = checkpoint if checkpoint.step else None

    def due(self) -> bool:
        """Whether the last checkpoint is old enough."""
        return self._clock.due()

    def due_in_s(self) -> float:
        """Return the time until it is; infinite if it never is."""
        return self._clock.due_in_s()

    def begun(self) -> PartOfEpoch | None:
        """Return what the epoch that starts now goes on from; None: its start."""
        left, self._left = self._left, None
        if left is None:
            return None
        self._observer.epoch_goes_on(left.extra[_TIMES])
        return PartOfEpoch(left.step, left.running)

    def checkpoint(self, part: PartOfEpoch) -> None:
        """Write a checkpoint inside an epoch."""
        self._save(part, {_TIMES: self._observer.times()})

    def epoch_ended(self, epoch: int, logs: Mapping[str, float]) -> None:
        """Write the checkpoint of a whole epoch."""
        self._epochs_done = epoch
        self._metrics.append({"epoch": epoch, **logs})
        self._save(PartOfEpoch(0), {})

    def _save(self, part: PartOfEpoch, extra: Mapping[str, Any]) -> None:
        if not self._writes:
            return
        weights, optimizer = keras_state(self._model)
        state = Checkpoint(
            self._epochs_done,
            weights,
            optimizer,
            extra,
            tuple(self._metrics),
            part.step,
            tuple(part.values),
        )
        save(self._directory, state)
        self._clock.saved()
