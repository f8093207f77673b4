"""How a training loop tells what it is doing, and learns that it should stop."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    # They load NumPy, and whoever watches a script is there before the script.
    from ipu_runtime.plan.plan import Plan
    from ipu_runtime.plan.request import PlanRequest


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """The plan of one program, or why there is none."""

    request: PlanRequest | None
    """What the plan was asked; None if the program's layers are not known."""
    plan: Plan | None
    reason: str = ""
    """Why the program cannot be modelled; empty if it can."""
    compile_s: float = 0.0
    """Modelled time of compiling for the device, or loading; 0 if unknown."""

    @property
    def step_us(self) -> float:
        """Modelled time of one step on one replica; 0 if unknown."""
        return self.plan.ipu_step_us if self.plan else 0.0


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """A call that runs one program: the origin of one series of numbers."""

    number: int
    """From 1, in the order in which calls begin in this process."""
    kind: str
    """`fit`, `validate`, `evaluate`, `predict`, `train`, or what has executions and
    no epochs: `run` of a strategy, `compile` of a function."""
    name: str
    """Of the model or the function."""
    planned: ProgramPlan
    """The program's plan, or why it has none."""
    epochs: int = 1
    steps: int = 0
    """Steps of an epoch, per replica; 0 if only the script knows."""
    replicas: int = 0
    """That take a batch each in a step; 0 if only the script knows."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A piece of an execution that has just finished."""

    phase: str
    """`train`, `evaluate`, `predict` or, for programs of a script's own, `run`."""
    epoch: int
    """From 1; 0 outside training."""
    step: int
    """Steps of this epoch that are done, per replica; executions for `run`."""
    steps: int
    """Steps of this epoch, per replica; 0 if only the script knows."""
    logs: Mapping[str, float]
    """Running metrics, `loss` among them."""
    host_step_ms: float
    """Measured on this machine: wall time of the piece per step."""
    ipu_step_us: float
    """Modelled by the plan."""
    call: ProgramCall | None = None
    """Which call it is a piece of; None where nobody asks."""


class Observer(Protocol):
    """Somebody who watches a training loop from the thread that runs it."""

    def compiling(self, program: str) -> None:
        """A program is about to be built."""

    def compiled(
        self, program: str, seconds: float, ipu_compile_s: float, executor: str = ""
    ) -> None:
        """It is built: measured seconds here, modelled seconds for an IPU.

        Args:
            program: What it does.
            seconds: Measured here.
            ipu_compile_s: Modelled for an IPU.
            executor: Which of TensorFlow's executors runs it here, and why.
        """

    def progressed(self, progress: Progress) -> None:
        """A piece of at most about 100 ms is done."""

    def should_stop(self) -> bool:
        """Asked between pieces; may block, which pauses the loop."""


TOLD_EVERY_S = 0.1
"""Progress is told no more often."""


def piece_s(watched: bool) -> float:
    """Return how long a piece of an execution should take.

    Numbers that somebody watches stream; without a watcher, pieces only have to be
    short enough for ctrl+c, and every one costs a start.
    """
    return TOLD_EVERY_S if watched else 1.0


class CallObserver(Observer, Protocol):
    """Somebody who watches a whole script: any number of calls, from any thread."""

    def call_began(self, call: ProgramCall) -> None:
        """The program of a call is planned and about to run."""

    def epoch_ended(
        self, call: ProgramCall, epoch: int, logs: Mapping[str, float]
    ) -> None:
        """An epoch of a call is complete, or its validation."""

    def call_ended(self, call: ProgramCall, logs: Mapping[str, float]) -> None:
        """The call returns; its results, if it has any."""


_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)
_of_process: list[CallObserver] = []
_untold: list[Callable[[], None]] = []
_numbers = itertools.count(1)


def current_observer() -> Observer | None:
    """Return who watches the training loops of this thread."""
    return _observer.get() or call_observer()


def call_observer() -> CallObserver | None:
    """Return who wants to know of every call; None inside of `observed_by`."""
    return _of_process[-1] if _of_process and _observer.get() is None else None


def begin_call(
    kind: str,
    name: str,
    planned: ProgramPlan,
    epochs: int = 1,
    steps: int = 0,
    replicas: int = 0,
) -> ProgramCall | None:
    """Tell that a call begins; return None if nobody wants to know."""
    observer = call_observer()
    if observer is None:
        return None
    if planned.plan is not None:
        replicas = planned.plan.replicas
    call = ProgramCall(next(_numbers), kind, name, planned, epochs, steps, replicas)
    observer.call_began(call)
    return call


def end_epoch(call: ProgramCall | None, epoch: int, logs: Mapping[str, float]) -> None:
    """Tell that an epoch of a call is complete."""
    observer = call_observer()
    if observer is not None and call is not None:
        observer.epoch_ended(call, epoch, logs)


def end_call(call: ProgramCall | None, logs: Mapping[str, float]) -> None:
    """Tell that a call returns."""
    observer = call_observer()
    if observer is not None and call is not None:
        observer.call_ended(call, logs)


class ProgressReport:
    """The progress of one call's program, reported to who watches it.

    Epochs of Keras, loops of estimators and programs that a script runs itself all
    report by this: from the thread that made it, or from one of TensorFlow's while
    that thread waits.
    """

    def __init__(
        self, phase: str, steps: int, step_us: float, call: ProgramCall | None
    ) -> None:
        """Take what is the same for all of the call: see `Progress`."""
        # Context variables are not seen from TensorFlow's threads.
        self.observer = current_observer()
        self.call = call
        self.epoch = 0
        self.paused_s = 0.0
        """How long the observer has paused the loop: no time of a step."""
        self.step_ms = 0.0
        """Measured time of a step when progress was told last; 0 before any."""
        self.told_step = 0
        self._phase, self._steps, self._step_us = phase, steps, step_us
        self._told_at = time.perf_counter()
        self._measured_s = self._measured_steps = 0.0

    def begin_epoch(self, epoch: int) -> None:
        """Steps count from the beginning of this epoch now."""
        self.epoch, self.told_step = epoch, 0
        self._told_at = time.perf_counter()

    def should_stop(self) -> bool:
        """Ask the observer, which may pause the loop by not answering."""
        if self.observer is None:
            return False
        began = time.perf_counter()
        stop = self.observer.should_stop()
        self.paused_s += time.perf_counter() - began
        return stop

    def measured(self, seconds: float, steps: float) -> None:
        """Take in the time of steps that were only run, not compiled."""
        self._measured_s += seconds
        self._measured_steps += steps

    @property
    def due(self) -> bool:
        """Whether nothing has been told for a while."""
        return time.perf_counter() - self._told_at >= TOLD_EVERY_S

    def tell(self, step: int, logs: Mapping[str, float]) -> None:
        """Tell of progress, with the mean time of the steps since the last time."""
        if self._measured_steps:
            self.step_ms = self._measured_s * 1e3 / self._measured_steps
            self._measured_s = self._measured_steps = 0.0
        self.tell_at(step, logs, self.step_ms)

    def tell_at(self, step: int, logs: Mapping[str, float], step_ms: float) -> None:
        """Tell of progress inside of a piece, whose steps are not measured yet."""
        self.told_step, self._told_at = step, time.perf_counter()
        if self.observer is not None:
            self.observer.progressed(
                Progress(
                    self._phase,
                    self.epoch,
                    step,
                    self._steps,
                    logs,
                    step_ms,
                    self._step_us,
                    self.call,
                )
            )


def tell_at_end(tell: Callable[[], None]) -> None:
    """Call `tell` before who watches the process leaves, for what is told rarely."""
    _untold.append(tell)


@contextmanager
def observed_by(observer: Observer) -> Iterator[None]:
    """Let `observer` watch every training loop started inside."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


@contextmanager
def process_observed_by(observer: CallObserver) -> Iterator[None]:
    """Let `observer` watch every call of every thread while inside."""
    _of_process.append(observer)
    try:
        yield
    finally:
        for tell in _untold:
            tell()
        _untold.clear()
        _of_process.remove(observer)
