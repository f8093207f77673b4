"""Event files that TensorBoard shows."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from workbench.runs.events import EpochEnded, Evaluated, Event, Progressed
from workbench.runs.series import AVERAGED, METRICS
from workbench.store_json import explained

_TITLES = {
    "loss": "loss",
    "accuracy": "accuracy",
    "host_ms_per_batch": "time per batch/measured ms",
    "ipu_us_per_batch": "time per batch/modelled us",
    "host_samples_per_second": "samples per second/measured",
    "samples_per_second": "samples per second/modelled",
}

_SCALARS = 1
"""DATA_CLASS_SCALAR of TensorBoard's file format."""


class TensorBoardWriter:
    """Writes a run's numbers as they come; the directory is TensorBoard's log dir."""

    def __init__(self, directory: Path) -> None:
        # TensorFlow takes seconds to load and not every run wants event files.
        import tensorflow as tf

        from workbench.backends.tensorflow_files import explained_disk

        self._explained = partial(explained_disk, directory)
        with explained(directory):
            directory.mkdir(parents=True, exist_ok=True)
        self._tf = tf
        # What TensorBoard's own function would write, without loading TensorBoard.
        self._metadata = tf.compat.v1.SummaryMetadata(
            plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"),
            data_class=_SCALARS,
        )
        # Names of files are bytes; TensorFlow takes text in UTF-8 only.
        with self._explained():
            self._writer = tf.summary.create_file_writer(os.fsencode(directory))
        self._epoch = 0

    def write(self, event: Event) -> None:
        """Add the numbers of an event, if it has any."""
        with self._explained(), self._writer.as_default():
            if isinstance(event, Progressed):
                step = (event.epoch - 1) * event.steps + event.step
                self._scalars(f"{_group(event)}step/", event, step)
            elif isinstance(event, EpochEnded):
                self._epoch = event.epoch
                self._scalars(f"{_group(event)}epoch/", event, event.epoch)
                self._writer.flush()
            elif isinstance(event, Evaluated):
                prefix = f"{_group(event)}test/"
                self._scalar(f"{prefix}loss", event.loss, self._epoch)
                self._scalar(f"{prefix}accuracy", event.accuracy, self._epoch)
                self._others(prefix, event, self._epoch)
                self._writer.flush()

    def _scalars(self, prefix: str, event: Progressed | EpochEnded, step: int) -> None:
        for metric in METRICS:
            value = getattr(event, metric)
            # A time or a rate that is not known is 0.
            known = value if value or metric in AVERAGED else None
            self._scalar(prefix + _TITLES[metric], known, step)
        self._others(prefix, event, step)

    def _others(
        self, prefix: str, event: Progressed | EpochEnded | Evaluated, step: int
    ) -> None:
        """Add what only a script's call has."""
        for name, value in event.metrics.items():
            if name not in METRICS and isinstance(value, int | float):
                self._scalar(prefix + name, value, step)

    def _scalar(self, name: str, value: float | None, step: int) -> None:
        if value is not None:
            tensor = self._tf.constant(value, self._tf.float32)
            self._tf.summary.write(name, tensor, step, self._metadata)

    def close(self) -> None:
        """Write what is left."""
        with self._explained():
            self._writer.close()


def _group(event: Progressed | EpochEnded | Evaluated) -> str:
    """Return what keeps the curves of a script's calls apart."""
    return f"{event.call}/" if event.call else ""


def write_event_files(events: Iterable[Event], directory: Path) -> None:
    """Write a whole run at once."""
    writer = TensorBoardWriter(directory)
    for event in events:
        writer.write(event)
    writer.close()
