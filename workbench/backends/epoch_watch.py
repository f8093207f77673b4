"""Watches an estimator's training over several epochs: their events and checkpoints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.engine.watch.checkpointer import PartOfEpoch
from ipu_runtime.engine.watch.observer import Progress
from ipu_runtime.estimators.tf_estimator import CheckpointSaverListener
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.runs.keras_keeper import CheckpointClock
from workbench.runs.run_checkpoint import KEPT, Checkpoint, save
from workbench.runs.run_context import RunContext
from workbench.runs.run_observer import RunObserver

v1 = tf.compat.v1


@dataclass(frozen=True)
class _Totals:
    """Sums of metrics over steps."""

    step: int = 0
    sums: Mapping[str, float] = field(default_factory=dict)


class EpochWatch(CheckpointSaverListener):
    """Observer, keeper and listener of a training in one or two calls.

    The estimator reports running means over a whole call; an epoch's own are their
    difference, and what another process had of it before.
    """

    def __init__(
        self,
        spec: ExperimentSpec,
        context: RunContext,
        observer: RunObserver,
        model_dir: Path,
        epoch_steps: int,
    ) -> None:
        self._context = context
        self._observer = observer
        self._model_dir = model_dir
        self._epoch_steps = epoch_steps
        every_s = spec.execution.checkpoint_every_s
        # What each process has besides inside an epoch is in nobody's checkpoint.
        self._clock = CheckpointClock(every_s if context.instance.count == 1 else 0.0)
        self._metrics: list[Mapping[str, Any]] = []
        self._epoch = context.first_epoch
        self._kept = _Totals()
        self._times: Mapping[str, float] | None = None
        self._before = self._now = _Totals()
        self._logs: dict[str, float] = {}
        self._session: Any = None
        self._saver: Any = None

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on with what a checkpoint says of epochs so far."""
        self._metrics += checkpoint.metrics
        if checkpoint.step:
            self._kept = _Totals(checkpoint.step, checkpoint.extra["sums"])
            self._times = checkpoint.extra["times"]

    @property
    def steps_before(self) -> int:
        """Steps of the first epoch that another process has done."""
        return self._kept.step

    def compiling(self, program: str) -> None:
        """Hand on that a program is about to be built."""
        self._observer.compiling(program)

    def compiled(
        self, program: str, seconds: float, ipu_compile_s: float, executor: str = ""
    ) -> None:
        """Hand on that it is built; a call with an epoch begins."""
        self._observer.compiled(program, seconds, ipu_compile_s, executor)
        self._before = self._now = _Totals()
        self._observer.epoch_began()
        if self._times is not None:
            self._observer.epoch_goes_on(self._times)
            self._times = None

    def should_stop(self) -> bool:
        """Ask the run."""
        return self._observer.should_stop()

    def progressed(self, progress: Progress) -> None:
        """Report a piece as part of its epoch."""
        step = progress.step
        self._now = _Totals(step, {k: v * step for k, v in progress.logs.items()})
        done = self._of_epoch()
        # The device's numbers are single: what is lost in sums is far below.
        self._logs = {k: float(np.float32(v / done.step)) for k, v in done.sums.items()}
        if any(not math.isfinite(value) for value in self._logs.values()):
            # Differences of sums cannot recover; the mean so far is all there is.
            self._logs = dict(progress.logs)
        self._observer.progressed(
            replace(
                progress,
                epoch=self._epoch,
                step=done.step,
                steps=self._epoch_steps,
                logs=self._logs,
                # The rest of a resumed epoch is a program of its own.
                ipu_step_us=self._context.plan.ipu_step_us,
            )
        )
        if self._context.instance.index and done.step == self._epoch_steps:
            # The first process writes the checkpoint, and tells of it.
            self._begin_next()

    def _of_epoch(self) -> _Totals:
        """Return what the epoch has come to."""
        kept, before, now = self._kept, self._before, self._now
        sums = {
            name: kept.sums.get(name, 0.0) + total - before.sums.get(name, 0.0)
            for name, total in now.sums.items()
        }
        return _Totals(kept.step + now.step - before.step, sums)

    def begin(self) -> None:
        """Prepare checkpoints inside epochs while the graph can still grow."""
        self._saver = v1.train.Saver(max_to_keep=KEPT)

    def after_save(self, session: Any, global_step_value: int) -> bool | None:
        """End an epoch when its checkpoint is there."""
        self._session = session
        if self._of_epoch().step != self._epoch_steps:
            return None
        self._observer.epoch_ended(self._epoch, self._logs)
        self._metrics.append({"epoch": self._epoch, **self._logs})
        name = f"model.ckpt-{int(global_step_value)}"
        self._save(Checkpoint(self._epoch, (), (), {"model_checkpoint": name}))
        self._begin_next()
        return None

    def _begin_next(self) -> None:
        self._epoch += 1
        self._kept, self._before = _Totals(), self._now
        self._observer.epoch_began()

    def due(self) -> bool:
        """Whether the last checkpoint is old enough."""
        return self._clock.due()

    def due_in_s(self) -> float:
        """Return the time until it is; infinite if it never is."""
        return self._clock.due_in_s()

    def begun(self) -> PartOfEpoch | None:
        """The estimator's own checkpoint says it."""
        return None

    def checkpoint(self, part: PartOfEpoch) -> None:
        """Write a checkpoint inside an epoch; at its end the estimator does."""
        done = self._of_epoch()
        if done.step == self._epoch_steps:
            return
        path = self._saver.save(
            self._session,
            str(self._model_dir / "model.ckpt"),
            v1.train.get_global_step(self._session.graph),
            # What the directory itself goes on from stays the end of an epoch.
            latest_filename="checkpoint_inside_epoch",
            write_meta_graph=False,
        )
        extra = {
            "model_checkpoint": Path(path).name,
            "sums": done.sums,
            "times": self._observer.times(),
        }
        self._save(Checkpoint(self._epoch - 1, (), (), extra, step=done.step))

    def _save(self, checkpoint: Checkpoint) -> None:
        record = replace(checkpoint, metrics=tuple(self._metrics))
        save(self._context.directory / "checkpoints", record)
        self._clock.saved()
