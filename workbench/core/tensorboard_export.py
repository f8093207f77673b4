"""Event files that TensorBoard shows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from workbench.core.events import EpochEnded, Evaluated, Event, Progressed
from workbench.core.record_files import explained
from workbench.core.series import METRICS

_TITLES = {
    "loss": "loss",
    "accuracy": "accuracy",
    "host_step_ms": "step time/measured ms",
    "ipu_step_us": "step time/modelled us",
}


class TensorBoardWriter:
    """Writes a run's numbers as they come; the directory is TensorBoard's log dir."""

    def __init__(self, directory: Path) -> None:
        # TensorFlow takes seconds to load and not every run wants event files.
        import tensorflow as tf

        with explained(directory):
            directory.mkdir(parents=True, exist_ok=True)
        self._summary = tf.summary
        self._writer = tf.summary.create_file_writer(str(directory))
        self._epoch = 0

    def write(self, event: Event) -> None:
        """Add the numbers of an event, if it has any."""
        with self._writer.as_default():
            if isinstance(event, Progressed):
                step = (event.epoch - 1) * event.steps + event.step
                self._scalars("step/", event, step)
            elif isinstance(event, EpochEnded):
                self._epoch = event.epoch
                self._scalars("epoch/", event, event.epoch)
                self._writer.flush()
            elif isinstance(event, Evaluated):
                self._summary.scalar("test/loss", event.loss, step=self._epoch)
                if event.accuracy is not None:
                    name = "test/accuracy"
                    self._summary.scalar(name, event.accuracy, step=self._epoch)
                self._writer.flush()

    def _scalars(self, prefix: str, event: Progressed | EpochEnded, step: int) -> None:
        for metric in METRICS:
            value = getattr(event, metric)
            if value is not None:
                self._summary.scalar(prefix + _TITLES[metric], value, step=step)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


def write_event_files(events: Iterable[Event], directory: Path) -> None:
    """Write a whole run at once."""
    writer = TensorBoardWriter(directory)
    for event in events:
        writer.write(event)
    writer.close()
