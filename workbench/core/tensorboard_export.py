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

_SCALARS = 1
"""DATA_CLASS_SCALAR of TensorBoard's file format."""


class TensorBoardWriter:
    """Writes a run's numbers as they come; the directory is TensorBoard's log dir."""

    def __init__(self, directory: Path) -> None:
        # TensorFlow takes seconds to load and not every run wants event files.
        import tensorflow as tf

        with explained(directory):
            directory.mkdir(parents=True, exist_ok=True)
        self._tf = tf
        # What TensorBoard's own function would write; it is not always installed.
        self._metadata = tf.compat.v1.SummaryMetadata(
            plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"),
            data_class=_SCALARS,
        )
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
                self._scalar("test/loss", event.loss, self._epoch)
                self._scalar("test/accuracy", event.accuracy, self._epoch)
                self._writer.flush()

    def _scalars(self, prefix: str, event: Progressed | EpochEnded, step: int) -> None:
        for metric in METRICS:
            self._scalar(prefix + _TITLES[metric], getattr(event, metric), step)

    def _scalar(self, name: str, value: float | None, step: int) -> None:
        if value is not None:
            tensor = self._tf.constant(value, self._tf.float32)
            self._tf.summary.write(name, tensor, step, self._metadata)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


def write_event_files(events: Iterable[Event], directory: Path) -> None:
    """Write a whole run at once."""
    writer = TensorBoardWriter(directory)
    for event in events:
        writer.write(event)
    writer.close()
