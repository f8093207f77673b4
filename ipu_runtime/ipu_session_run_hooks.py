"""Hooks that see tensors of the device: `ipu.ipu_session_run_hooks`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.estimators.tf_estimator import SessionRunHook
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue

logger = logging.getLogger("tensorflow")


class IPULoggingTensorHook(SessionRunHook):
    """Logs tensors that a model function hands to `log`.

    Accepts the older API's `feed_name` and `replication_factor` too.
    """

    LoggingMode = IPUOutfeedMode

    def __init__(
        self,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[Mapping[str, Any]], str] | None = None,
        logging_mode: IPUOutfeedMode = IPUOutfeedMode.LAST,
        feed_name: str = "logging_hook",
        replication_factor: int = 1,
    ) -> None:
        del replication_factor
        intervals = sum(every is not None for every in (every_n_iter, every_n_secs))
        if intervals > 1:
            raise ValueError("Only one of every_n_iter and every_n_secs may be given.")
        if not (intervals or at_end):
            raise ValueError("Give every_n_iter, every_n_secs or at_end=True.")
        if not isinstance(logging_mode, IPUOutfeedMode):
            raise TypeError(
                f"logging_mode must be a LoggingMode, but is {logging_mode!r}."
            )
        # The first run is due, and then every one that an interval later comes.
        self._timer = (
            tf.compat.v1.train.SecondOrStepTimer(every_n_secs, every_n_iter)
            if intervals
            else None
        )
        self._at_end = at_end
        self._formatter = formatter
        self._mode = logging_mode
        # Everything is kept until it is due; then LAST shows the newest of it.
        self._outfeed = IPUOutfeedQueue(IPUOutfeedMode.ALL, feed_name=feed_name)
        self._logged = False
        self._dequeue: Any = None
        self._runs = 0

    def log(self, tensors: Any) -> Any:
        """Return the operation that sends tensors to the hook."""
        if self._logged:
            raise RuntimeError("IPULoggingTensorHook.log may be called only once.")
        named = _named(tensors)
        self._logged = True
        return self._outfeed.enqueue(named)

    def begin(self) -> None:
        """Prepare the host's end of the queue."""
        if not self._logged:
            raise RuntimeError(
                "IPULoggingTensorHook.log was never called in model_fn: there is "
                "nothing to log."
            )
        self._dequeue = self._outfeed.dequeue()
        self._runs = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Log when it is due; called once per loop."""
        del run_values
        if self._timer is not None and self._timer.should_trigger_for_step(self._runs):
            self._log_values(run_context.session)
        self._runs += 1

    def end(self, session: Any) -> None:
        """Log what is left, if asked to."""
        if self._at_end:
            self._log_values(session)
        if self._timer is not None:
            self._timer.reset()

    def _log_values(self, session: Any) -> None:
        values = session.run(self._dequeue)
        if any(np.shape(value)[0] == 0 for value in values.values()):
            return
        if self._mode is IPUOutfeedMode.LAST:
            values = {name: value[-1] for name, value in values.items()}
        elapsed = None
        if self._timer is not None:
            elapsed, _ = self._timer.update_last_triggered_step(self._runs)
        if self._formatter is not None:
            logger.info(self._formatter(values))
            return
        text = ", ".join(f"{name} = {value}" for name, value in values.items())
        logger.info("%s%s", text, f" ({elapsed:.3f} sec)" if elapsed else "")


def _named(tensors: Any) -> dict[str, Any]:
    if isinstance(tensors, dict):
        named = dict(tensors)
    elif isinstance(tensors, (list, tuple)):
        named = {getattr(item, "name", str(item)): item for item in tensors}
    else:
        named = {getattr(tensors, "name", str(tensors)): tensors}
    for item in named.values():
        if not isinstance(item, tf.Tensor):
            raise TypeError(f"Only tensors can be logged, but got {item!r}.")
    return named
