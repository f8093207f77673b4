"""One epoch: executions, cut into pieces so that numbers stream and stop acts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.pipeline.pipeline_training import (
    PipelineTraining,
    StoppedError,
)
from ipu_runtime.engine.build.programs.metric_results import Logs, single_values
from ipu_runtime.engine.build.replicas.instance_exchange import lost_instances_named
from ipu_runtime.engine.run.batch_callbacks import BatchCallbacks, CallbackThread
from ipu_runtime.engine.run.epoch_keeping import epoch_keeping
from ipu_runtime.engine.run.work import EpochOutcome, Work
from ipu_runtime.engine.watch.observer import (
    Observer,
    Progress,
    current_observer,
    piece_s,
)

_SHOWN_EVERY_S = 0.1
_LOOK_EVERY_S = 0.05


_PROGRAM_NAMES = {"train": "training", "test": "evaluation", "predict": "prediction"}
_PHASES = {"train": "train", "test": "evaluate", "predict": "predict"}


class Epoch:
    """Runs the executions of one epoch."""

    def __init__(
        self, work: Work, callbacks: BatchCallbacks, epoch: int, asynchronous: bool
    ) -> None:
        self._work = work
        self._callbacks = callbacks
        self._epoch = epoch
        self._asynchronous = asynchronous
        self._observer = current_observer()
        self._keeping = epoch_keeping(work)
        self._shown_at = self._told_at = time.perf_counter()
        self._seconds = 0.0
        self._steps_since = 0.0
        self._told_step = 0
        self._shown_logs: dict[str, float] = {}
        self._shown_ms = 0.0
        self._looked_at = 0.0
        self._waited = 0.0
        self._outcome = EpochOutcome({})

    def run(self, source: Any) -> EpochOutcome:
        """Run until the epoch ends, or somebody asks to stop."""
        work = self._work
        if self._asynchronous:
            with CallbackThread(self._callbacks, work.count.replicas) as thread:
                self._run(source, thread)
        else:
            self._run(source, None)
        if work.phase != "predict":
            self._outcome.logs = work.logs()
        return self._outcome

    def _run(self, source: Any, thread: CallbackThread | None) -> None:
        work, count = self._work, self._work.count
        step = self._keeping.begin()
        while step < count.steps:
            inside = 0 if work.joined else step % count.per_execution
            end = count.steps if work.joined else step - inside + count.per_execution
            if thread is None:
                self._callbacks.begin(step)
            if not inside:
                work.before_execution()
            finished = self._run_execution(source, step, end, thread)
            work.after_execution()
            if thread is None and finished:
                self._callbacks.end(end - 1, self._batch_logs())
            step = end
            ended = self._outcome.stopped or self._outcome.exhausted
            if ended or work.stop_training():
                return
            self._keeping.keep(step * count.replicas)

    def _run_execution(
        self, source: Any, step: int, end: int, thread: CallbackThread | None
    ) -> bool:
        """Run the pieces of an execution; tell whether it was completed."""
        work, replicas = self._work, self._work.count.replicas
        batch, last = step * replicas, end * replicas
        while batch < last:
            if self._observer and self._asked_to_stop(self._observer):
                self._outcome.stopped = True
                return False
            left = min(last - batch, self._keeping.most(batch))
            watched = bool(self._observer or thread or self._callbacks.shown)
            size = work.program.pieces.next(left, piece_s(watched))
            # Curves are differences of sums over steps: report whole ones.
            beyond = (batch + size) % replicas
            if beyond < size:
                size -= beyond
            try:
                results = self._piece(source, batch, size)
            except StoppedError:
                self._outcome.stopped = True
                return False
            except tf.errors.OutOfRangeError as error:
                _tell_of_missing_data(error)
                self._outcome.exhausted = True
                return False
            if work.phase == "predict":
                self._outcome.outputs.append(results)
                results = [{} for _ in range(size)]
            elif results is not None:
                work.collected(results)
            if thread is not None:
                thread.put(batch, results)
            batch += size
            if batch % replicas == 0:
                self._show(batch // replicas, done=batch == last)
            if batch < last:
                self._keeping.keep(batch)
        return True

    def _piece(self, source: Any, batch: int, size: int) -> Any:
        work, program = self._work, self._work.program
        first = not program.pieces.compiled
        if first and self._observer:
            self._observer.compiling(_PROGRAM_NAMES[work.phase])
        started = time.perf_counter() - self._waited
        if isinstance(program.executable, PipelineTraining):
            program.executable.watch = self._inside(batch, size, started)
        with lost_instances_named(work.instance):
            results = program.executable.run(source, batch, size)
        seconds = time.perf_counter() - self._waited - started
        program.pieces.record(size, seconds)
        work.done += size
        if first and self._observer:
            self._observer.compiled(
                _PROGRAM_NAMES[work.phase],
                seconds,
                program.planned.compile_s,
                str(program.choice),
            )
        if not first:
            work.seconds += seconds
            work.batches += size
            self._seconds += seconds
            self._steps_since += size / work.count.replicas
        return results

    def _asked_to_stop(self, observer: Observer) -> bool:
        """Ask, which may take as long as a pause does: that is no time of a step."""
        began = time.perf_counter()
        stop = observer.should_stop()
        self._waited += time.perf_counter() - began
        return stop

    def _inside(self, batch: int, size: int, started: float) -> Callable[[float], None]:
        """Return what a long piece calls while it runs."""
        observer, replicas = self._observer, self._work.count.replicas
        unit = self._work.program.executable.unit

        def look(updates: float) -> None:
            now = time.perf_counter()
            if observer is None or now - self._looked_at < _LOOK_EVERY_S:
                return
            self._looked_at = now
            if self._asked_to_stop(observer):
                raise StoppedError
            now = time.perf_counter()
            steps = int(min(updates * unit, size - 1)) // replicas
            step = batch // replicas + steps
            so_far_ms = (now - self._waited - started) * 1e3 / steps if steps else 0.0
            host_step_ms = self._shown_ms or so_far_ms
            long_ago = now - self._told_at >= _SHOWN_EVERY_S
            known = self._shown_logs and host_step_ms
            if long_ago and known and step > self._told_step:
                self._tell(step, self._shown_logs, host_step_ms)

        return look

    def _tell(self, step: int, logs: Mapping[str, float], host_step_ms: float) -> None:
        work = self._work
        self._told_step, self._told_at = step, time.perf_counter()
        if self._observer:
            self._observer.progressed(
                Progress(
                    _PHASES[work.phase],
                    self._epoch,
                    step,
                    work.count.steps,
                    logs,
                    host_step_ms,
                    work.program.planned.step_us,
                    work.call,
                )
            )

    def _show(self, step: int, done: bool) -> None:
        """Tell the observer and the progress bar, but not too often."""
        work = self._work
        now = time.perf_counter()
        if not done and now - self._shown_at < _SHOWN_EVERY_S:
            return
        self._shown_at = now
        if self._observer and not (done and self._told_by_epoch(now)):
            if work.phase != "predict":
                self._shown_logs = single_values(work.logs())
            if self._steps_since:
                self._shown_ms = self._seconds * 1e3 / self._steps_since
                self._seconds, self._steps_since = 0.0, 0.0
            # The first piece compiles, so that no step is measured yet.
            host_step_ms = self._shown_ms or work.host_step_ms
            if host_step_ms or done:
                self._tell(step, self._shown_logs, host_step_ms)
        if work.joined and self._callbacks.shown and not done:
            # Only the progress bar is listening: move it by whole executions.
            whole = step - step % work.count.per_execution
            if whole:
                self._callbacks.end(whole - 1, self._batch_logs())

    def _told_by_epoch(self, now: float) -> bool:
        """Whether what a script's epoch ends with is enough, because it is short."""
        call = self._work.call
        if call is None or call.kind not in ("fit", "validate"):
            return False
        return call.kind == "validate" or now - self._told_at < _SHOWN_EVERY_S

    def _batch_logs(self) -> Logs:
        if self._work.phase == "predict":
            return {}
        if not (self._callbacks.listened_to or self._callbacks.shown):
            return {}
        return self._work.logs()


def _tell_of_missing_data(error: tf.errors.OutOfRangeError) -> None:
    tf.get_logger().warning(
        "The input ran out of data; the epoch is interrupted. Make sure that the "
        "dataset can generate at least `steps_per_epoch * epochs` batches; you may "
        "need `repeat()`. (%s)",
        error.message.splitlines()[0] if error.message else "end of sequence",
    )
