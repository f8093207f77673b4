"""Turns what a training loop reports into the run's events."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ipu_runtime.engine.watch.observer import Progress
from workbench.runs.events import (
    Compiled,
    Compiling,
    EpochEnded,
    Evaluated,
    Paused,
    Progressed,
    WentOn,
)
from workbench.runs.run_context import RunContext

_NOTABLE_S = 0.5
"""A program that is ready sooner than this was not built again."""
ACCURACY_NAMES = ("accuracy", "acc", "sparse_categorical_accuracy")


class RunObserver:
    """Watches the training loops of a backend; an `ipu_runtime.engine` observer."""

    def __init__(self, context: RunContext) -> None:
        self.stopped = False
        """Whether a loop was told to stop, so that its epoch is not complete."""
        self._context = context
        self._epoch_began_s = time.perf_counter()
        self._step_ms_sum = 0.0
        self._steps_seen = 0
        plan = context.plan
        # What goes on at the last step of an epoch may report no piece.
        self._ipu_step_us = plan.ipu_step_us
        self._replicas, self._batch_size = plan.replicas, plan.request.batch_size
        self._built: set[str] = set()

    def compiling(self, program: str) -> None:
        """A program is about to be built; every epoch may ask for the same one."""
        if program not in self._built:
            self._context.emit(Compiling(f"compiling {program}"))

    def compiled(
        self, program: str, seconds: float, ipu_compile_s: float, executor: str = ""
    ) -> None:
        """It is built: measured seconds here, modelled seconds for an IPU."""
        if program not in self._built or seconds > _NOTABLE_S:
            self._built.add(program)
            self._context.emit(Compiled(program, seconds, ipu_compile_s, executor))

    def progressed(self, progress: Progress) -> None:
        """A piece is done; only training is streamed."""
        if progress.phase != "train":
            return
        if progress.step <= self._steps_seen:
            self._steps_seen, self._step_ms_sum = 0, 0.0
        new_steps = progress.step - self._steps_seen
        self._step_ms_sum += progress.host_step_ms * new_steps
        self._steps_seen = progress.step
        self._ipu_step_us = progress.ipu_step_us
        self._context.emit(
            Progressed(
                progress.epoch,
                progress.step,
                progress.steps,
                float(progress.logs.get("loss", float("nan"))),
                accuracy_in(progress.logs),
                progress.host_step_ms,
                progress.ipu_step_us,
                replicas=self._replicas,
                batch_size=self._batch_size,
            )
        )

    def should_stop(self) -> bool:
        """Asked between pieces; blocks while the run is paused."""
        control = self._context.control
        if control.paused:
            began_s = time.perf_counter()
            self._context.emit(Paused())
            self.stopped = control.should_stop()
            # A pause is no time of the epoch.
            self._epoch_began_s += time.perf_counter() - began_s
            self._context.emit(WentOn())
        else:
            self.stopped = control.should_stop()
        return self.stopped

    def epoch_began(self) -> None:
        """An epoch begins: its time and its steps count from here."""
        self._epoch_began_s = time.perf_counter()
        self._steps_seen, self._step_ms_sum = 0, 0.0

    def times(self) -> dict[str, float]:
        """Return what is measured of the epoch so far, for a run that goes on later."""
        return {
            "steps": self._steps_seen,
            "step_ms_sum": self._step_ms_sum,
            "seconds": time.perf_counter() - self._epoch_began_s,
        }

    def epoch_goes_on(self, times: Mapping[str, float]) -> None:
        """An epoch begins that another process has measured so far."""
        self._steps_seen = int(times["steps"])
        self._step_ms_sum = times["step_ms_sum"]
        self._epoch_began_s = time.perf_counter() - times["seconds"]

    def epoch_ended(self, epoch: int, logs: Mapping[str, float]) -> None:
        """An epoch is complete: emit its numbers."""
        self._context.emit(
            EpochEnded(
                epoch,
                float(logs.get("loss", float("nan"))),
                accuracy_in(logs),
                self._step_ms_sum / max(self._steps_seen, 1),
                self._ipu_step_us,
                time.perf_counter() - self._epoch_began_s,
                replicas=self._replicas,
                batch_size=self._batch_size,
            )
        )

    def evaluated(self, logs: Mapping[str, float]) -> None:
        """The test data were gone through: emit the result."""
        loss = float(logs.get("loss", float("nan")))
        self._context.emit(Evaluated(loss, accuracy_in(logs)))


def accuracy_in(logs: Mapping[str, float]) -> float | None:
    """Return the accuracy among a loop's metrics, whatever it is called."""
    for name in ACCURACY_NAMES:
        if name in logs:
            return float(logs[name])
    return None
