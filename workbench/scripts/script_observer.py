"""Turns what a script's calls report into the events of a run."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ipu_runtime.engine.watch.observer import ProgramCall, Progress
from workbench.runs.events import (
    CallBegan,
    CallEnded,
    Compiled,
    Compiling,
    EpochEnded,
    Evaluated,
    Event,
    Progressed,
)
from workbench.runs.run_observer import accuracy_in

_TRAINING = ("train",)
"""Kinds of calls that are one epoch by themselves."""


@dataclass
class _Open:
    """A call that has begun."""

    label: str
    steps: int
    ipu_step_us: float
    replicas: int
    batch_size: int
    """0 if it is not known."""
    began_s: float = field(default_factory=time.perf_counter)
    epoch_began_s: float = field(default_factory=time.perf_counter)
    step: int = 0
    step_ms_sum: float = 0.0
    epochs: int = 0

    def add(self, progress: Progress) -> None:
        """Take in a piece; steps count from the start of its epoch."""
        if progress.step <= self.step:
            self.step, self.step_ms_sum = 0, 0.0
        self.step_ms_sum += progress.host_step_ms * (progress.step - self.step)
        self.step = progress.step

    def end_epoch(self) -> tuple[float, float, float]:
        """Return measured and modelled time of a step, and seconds; begin another."""
        now = time.perf_counter()
        seconds = now - self.epoch_began_s
        step_ms = self.step_ms_sum / max(self.step, 1)
        if not step_ms and self.epochs and self.steps:
            # An epoch too short for pieces; the first may have compiled.
            step_ms = seconds * 1e3 / self.steps
        self.epoch_began_s, self.step, self.step_ms_sum = now, 0, 0.0
        self.epochs += 1
        return step_ms, self.ipu_step_us, seconds


class ScriptObserver:
    """Watches every call of a script; an `ipu_runtime.engine` CallObserver."""

    def __init__(
        self,
        emit: Callable[[Event], None],
        keep_plan: Callable[[ProgramCall], str],
    ) -> None:
        self._emit = emit
        self._keep_plan = keep_plan
        self._counts: Counter[str] = Counter()
        self._open: dict[int, _Open] = {}
        self._naming = threading.Lock()

    def compiling(self, program: str) -> None:
        """A program is about to be built."""
        self._emit(Compiling(f"compiling {program}"))

    def compiled(
        self, program: str, seconds: float, ipu_compile_s: float, executor: str = ""
    ) -> None:
        """It is built: measured seconds here, modelled seconds for an IPU."""
        self._emit(Compiled(program, seconds, ipu_compile_s, executor))

    def should_stop(self) -> bool:
        """A script is stopped by its signals alone."""
        return False

    def call_began(self, call: ProgramCall) -> None:
        """Name a call after its kind: `fit 1`."""
        with self._naming:
            self._counts[call.kind] += 1
            label = f"{call.kind} {self._counts[call.kind]}"
        request = call.planned.request
        self._open[call.number] = _Open(
            label,
            call.steps,
            call.planned.step_us,
            call.replicas,
            request.batch_size if request else 0,
        )
        file, reason = self._keep_plan(call), call.planned.reason
        self._emit(
            CallBegan(
                label, call.kind, call.name, call.epochs, call.steps, file, reason
            )
        )

    def progressed(self, progress: Progress) -> None:
        """A piece is done; a validation has no curve but that of its epochs."""
        call = progress.call
        if call is None or call.kind == "validate":
            return
        state = self._open[call.number]
        state.add(progress)
        numbers = numbers_in(progress.logs)
        self._emit(
            Progressed(
                max(progress.epoch, 1),
                progress.step,
                progress.steps,
                numbers.get("loss", float("nan")),
                accuracy_in(numbers),
                progress.host_step_ms,
                progress.ipu_step_us,
                state.label,
                numbers,
                state.replicas,
                state.batch_size,
            )
        )

    def epoch_ended(
        self, call: ProgramCall, epoch: int, logs: Mapping[str, float]
    ) -> None:
        """An epoch of a call is complete, or its validation."""
        state, numbers = self._open[call.number], numbers_in(logs)
        loss, accuracy = numbers.get("loss", float("nan")), accuracy_in(numbers)
        times = state.end_epoch()
        self._emit(
            EpochEnded(
                epoch,
                loss,
                accuracy,
                *times,
                state.label,
                numbers,
                state.replicas,
                state.batch_size,
            )
        )

    def call_ended(self, call: ProgramCall, logs: Mapping[str, float]) -> None:
        """The call returns."""
        state, numbers = self._open[call.number], numbers_in(logs)
        if call.kind in _TRAINING:
            self.epoch_ended(call, 1, logs)
        elif call.kind == "evaluate":
            loss, accuracy = numbers.get("loss", float("nan")), accuracy_in(numbers)
            self._emit(Evaluated(loss, accuracy, state.label, numbers))
        seconds = time.perf_counter() - state.began_s
        self._emit(CallEnded(state.label, seconds, numbers))


def numbers_in(logs: Mapping[str, Any]) -> dict[str, float]:
    """Return what is a single number; metrics may also be arrays."""
    numbers = {}
    for name, value in logs.items():
        try:
            numbers[str(name)] = float(value)
        except (TypeError, ValueError):
            continue
    return numbers
