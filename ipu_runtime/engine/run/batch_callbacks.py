"""Batch callbacks: once per execution, or for every step from a thread."""

from __future__ import annotations

import queue
import threading
from typing import Any

from ipu_runtime.engine.build.programs.metric_results import Logs, single_values
from ipu_runtime.frameworks.keras_api import CallbackList, History, ProgbarLogger
from ipu_runtime.frameworks.keras_training import ProgressBar, is_keras_default


def callback_list(
    callbacks: Any, model: Any, verbose: Any, epochs: int, steps: int
) -> Any:
    """Return Keras' container for callbacks, with history and progress bar."""
    if isinstance(callbacks, CallbackList):
        return callbacks
    given = [] if callbacks is None else callbacks
    given = list(given) if isinstance(given, (list, tuple)) else [given]
    if verbose != 0 and not any(isinstance(item, ProgbarLogger) for item in given):
        given.append(ProgressBar(shown=single_values))
    return CallbackList(
        given,
        add_history=True,
        add_progbar=False,
        verbose=verbose,
        epochs=epochs,
        steps=steps,
        model=model,
    )


class BatchCallbacks:
    """Calls the batch hooks of one phase."""

    def __init__(self, callbacks: Any, phase: str) -> None:
        self._begin = getattr(callbacks, f"on_{phase}_batch_begin")
        self._end = getattr(callbacks, f"on_{phase}_batch_end")
        names = ["on_batch_begin", "on_batch_end"] if phase == "train" else []
        names += [f"on_{phase}_batch_begin", f"on_{phase}_batch_end"]
        others = [
            item
            for item in callbacks.callbacks
            if not isinstance(item, (History, ProgbarLogger))
        ]
        self.listened_to = any(
            not is_keras_default(getattr(item, name))
            for item in others
            for name in names
        )
        """Whether somebody besides the progress bar wants to know of batches."""
        self.shown = any(
            isinstance(item, ProgbarLogger) and item.verbose == 1
            for item in callbacks.callbacks
        )

    def begin(self, step: int) -> None:
        """An execution begins with this step."""
        self._begin(step)

    def end(self, step: int, logs: Logs) -> None:
        """An execution ends with this step."""
        self._end(step, logs)


class CallbackThread:
    """Calls the hooks of every step and replica beside the training loop."""

    def __init__(self, callbacks: BatchCallbacks, replicas: int) -> None:
        self._callbacks = callbacks
        self._replicas = replicas
        self._waiting: queue.SimpleQueue[tuple[int, Logs] | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._call, daemon=True)

    def __enter__(self) -> CallbackThread:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._waiting.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def put(self, first_batch: int, logs_by_batch: list[Logs]) -> None:
        """Hand over the results of consecutive batches."""
        for offset, logs in enumerate(logs_by_batch):
            self._waiting.put(((first_batch + offset) // self._replicas, logs))

    def _call(self) -> None:
        while (item := self._waiting.get()) is not None:
            if self._error is not None:
                continue
            step, logs = item
            try:
                self._callbacks.begin(step)
                self._callbacks.end(step, logs)
            except BaseException as error:
                # It belongs to the thread that trains: raised there at the end.
                self._error = error
