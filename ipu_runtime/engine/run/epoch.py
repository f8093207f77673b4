"""Epochs of a Keras model: executions, callbacks between them, and their results."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.programs.metric_results import Logs, single_values
from ipu_runtime.engine.run.batch_callbacks import BatchCallbacks, CallbackThread
from ipu_runtime.engine.run.checkpointing import (
    Checkpoints,
    EpochState,
    NoCheckpoints,
    epoch_checkpoints,
)
from ipu_runtime.engine.run.piece_loop import Piece, PieceLoop
from ipu_runtime.engine.run.session import Session
from ipu_runtime.engine.watch.observer import (
    TOLD_EVERY_S,
    ProgressReport,
    begin_call,
    end_call,
    end_epoch,
)
from ipu_runtime.engine.watch.step_profile import IpuProfile

_NAMES = {"train": "training", "test": "evaluation", "predict": "prediction"}
_PHASES = {"train": "train", "test": "evaluate", "predict": "predict"}


@dataclass
class EpochOutcome:
    """What an epoch has come to."""

    logs: Logs
    stopped: bool = False
    """Whether somebody outside has asked to stop."""
    exhausted: bool = False
    """Whether a data set of unknown size has ended too early."""
    outputs: list[Any] = field(default_factory=list)
    """Of predicting, by piece."""


class ModelRun:
    """A call of `fit`, `evaluate` or `predict`, from its first epoch to its last."""

    def __init__(
        self, session: Session, callbacks: Any, kind: str, epochs: int = 1
    ) -> None:
        """Tell who watches the script that the call begins.

        Args:
            callbacks: Keras' list of them.
            kind: `fit`, `validate`, `evaluate` or `predict`.
        """
        count, planned = session.count, session.program.planned
        self.session = session
        self._callbacks = BatchCallbacks(callbacks, session.call.phase)
        self._joined = session.joins_executions(self._callbacks.listened_to)
        replicas = count.replicas * session.instance.count
        self.call = begin_call(
            kind, session.call.model.name, planned, epochs, count.steps, replicas
        )
        self._loop = PieceLoop(
            session.program,
            _NAMES[session.call.phase],
            ProgressReport(
                _PHASES[session.call.phase], count.steps, planned.step_us, self.call
            ),
            session.instance,
            batches_per_step=count.replicas,
            watched=session.asynchronous or self._callbacks.shown,
        )
        self._shown_at = 0.0

    def epoch(self, source: Any, number: int = 0) -> EpochOutcome:
        """Run until an epoch ends, or somebody asks to stop.

        Args:
            source: What the feed gives for this epoch.
            number: Of the epoch, from 1; 0 outside of training.
        """
        self._shown_at = time.perf_counter()
        self._loop.begin_epoch(number)
        outcome = EpochOutcome({})
        if self.session.asynchronous:
            replicas = self.session.count.replicas
            with CallbackThread(self._callbacks, replicas) as thread:
                self._run(source, outcome, thread)
        else:
            self._run(source, outcome, None)
        outcome.stopped = self._loop.stopped
        if self.session.call.phase != "predict":
            outcome.logs = self.session.logs()
        return outcome

    def end_epoch(self, number: int, logs: Logs) -> None:
        """Tell that an epoch is complete, or its validation."""
        end_epoch(self.call, number, single_values(logs))

    def end(self, logs: Logs) -> IpuProfile:
        """Tell that the call returns; return its measured and its modelled step."""
        end_call(self.call, single_values(logs))
        session, program = self.session, self.session.program
        steps = self._loop.batches // session.count.replicas
        return IpuProfile(
            session.call.phase,
            self._loop.step_ms,
            program.planned,
            steps,
            -(-steps // session.count.per_execution),
            program.executable.peak_stash,
            str(program.choice or ""),
        )

    def _run(
        self, source: Any, outcome: EpochOutcome, thread: CallbackThread | None
    ) -> None:
        session, count = self.session, self.session.count
        checkpoints = self._checkpoints()
        step = checkpoints.restore()
        while step < count.steps:
            inside = 0 if self._joined else step % count.per_execution
            end = count.steps if self._joined else step - inside + count.per_execution
            if thread is None:
                self._callbacks.begin(step)
            if not inside:
                session.begin_execution()
            self._run_execution(source, step, end, outcome, thread, checkpoints)
            session.end_execution()
            ended = self._loop.stopped or outcome.exhausted
            if thread is None and not ended:
                self._callbacks.end(end - 1, self._batch_logs())
            if ended or session.stop_training:
                return
            step = end
            checkpoints.take_if_due(step * count.replicas)

    def _run_execution(
        self,
        source: Any,
        step: int,
        end: int,
        outcome: EpochOutcome,
        thread: CallbackThread | None,
        checkpoints: Checkpoints,
    ) -> None:
        replicas = self.session.count.replicas
        try:
            for piece in self._loop.pieces(
                source, step * replicas, end * replicas, checkpoints
            ):
                self._take(piece, outcome, thread)
                if piece.end % replicas == 0:
                    self._show(piece.end // replicas, piece.is_last)
        except tf.errors.OutOfRangeError as error:
            _warn_of_missing_data(error)
            outcome.exhausted = True

    def _checkpoints(self) -> Checkpoints:
        session, program = self.session, self.session.program
        if session.call.phase != "train":
            return NoCheckpoints()
        return epoch_checkpoints(
            EpochState(
                program.executable.state,
                session.update_batches,
                session.count.replicas,
                session.count.batches,
                session.instance,
            ),
            program.sizes,
        )

    def _take(
        self, piece: Piece, outcome: EpochOutcome, thread: CallbackThread | None
    ) -> None:
        results = piece.results
        if self.session.call.phase == "predict":
            outcome.outputs.append(results)
            results = [{} for _ in range(piece.first, piece.end)]
        elif results is not None and self.session.averaged is not None:
            self.session.averaged.add(results)
        if thread is not None:
            thread.put(piece.first, results)

    def _show(self, step: int, done: bool) -> None:
        """Tell the observer and the progress bar, but not too often."""
        now = time.perf_counter()
        if not done and now - self._shown_at < TOLD_EVERY_S:
            return
        self._shown_at = now
        if self._loop.report.observer and not (done and self._told_by_epoch()):
            logs: Mapping[str, float] = {}
            if self.session.call.phase != "predict":
                logs = single_values(self.session.logs())
            # The first piece compiles, so that no step is measured yet.
            if self._loop.timed_batches or done:
                self._loop.tell(step, logs)
        if self._joined and self._callbacks.shown and not done:
            # Only the progress bar is listening: move it by whole executions.
            whole = step - step % self.session.count.per_execution
            if whole:
                self._callbacks.end(whole - 1, self._batch_logs())

    def _told_by_epoch(self) -> bool:
        """Whether what a script's epoch ends with is enough, because it is short."""
        if self.call is None or self.call.kind not in ("fit", "validate"):
            return False
        return self.call.kind == "validate" or not self._loop.report.due

    def _batch_logs(self) -> Logs:
        if self.session.call.phase == "predict":
            return {}
        if not (self._callbacks.listened_to or self._callbacks.shown):
            return {}
        return self.session.logs()


def _warn_of_missing_data(error: tf.errors.OutOfRangeError) -> None:
    tf.get_logger().warning(
        "The input ran out of data; the epoch is interrupted. Make sure that the "
        "dataset can generate at least `steps_per_epoch * epochs` batches; you may "
        "need `repeat()`. (%s)",
        error.message.splitlines()[0] if error.message else "end of sequence",
    )
