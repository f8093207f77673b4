"""What `run` prints while a run goes on, for people and for programs."""

from __future__ import annotations

import sys
from typing import TextIO

from ipu_runtime.plan.quantities import count, duration, four_decimals, microseconds
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.printed_figures import PrintedFigures, printed_figures
from workbench.headless.diagnostics import say
from workbench.headless.output import print_json, print_line
from workbench.instances.instance_spread import spread_words
from workbench.runs.event_json import event_to_json
from workbench.runs.events import (
    Compiled,
    Compiling,
    EpochEnded,
    Evaluated,
    Event,
    InstancesSeen,
    Progressed,
    RunEnded,
    RunStarted,
    RunStatus,
)

_BAR_WIDTH = 24


class JsonDisplay:
    """One object per event on standard output."""

    def show(self, event: Event) -> None:
        """Print an event."""
        print_json(event_to_json(event))


class TextDisplay:
    """Epochs and results on standard output; progress on a terminal's standard error.

    Args:
        spec: The experiment, for its title and the number of epochs.
        quiet: Print nothing but what went wrong.
    """

    def __init__(
        self, spec: ExperimentSpec, *, quiet: bool = False, stream: TextIO | None = None
    ) -> None:
        self._spec, self._quiet = spec, quiet
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty() and not quiet
        self._instances = ""
        """How the processes of the run stand, in words."""
        self._document = PrintedFigures()

    def show(self, event: Event) -> None:
        """Print an event, or redraw the progress line."""
        if isinstance(event, RunEnded):
            self._ended(event)
        elif self._quiet:
            return
        elif isinstance(event, Progressed):
            self._redraw(self._progress(event))
        elif isinstance(event, Compiling):
            self._comment(event.what)
        elif isinstance(event, RunStarted):
            self._comment(f"run {event.run_id}: {self._spec.experiment.title}")
            self._document = printed_figures(event.spec, event.preset)
            if self._document.why_not:
                self._comment(self._document.why_not)
        elif isinstance(event, Compiled):
            modelled = duration(event.ipu_compile_s) if event.ipu_compile_s else ""
            aside = f" (an IPU: about {modelled}, modelled)" if modelled else ""
            took = duration(event.seconds)
            self._comment(f"compiled {event.program} in {took}{aside}")
        elif isinstance(event, InstancesSeen):
            self._instances = spread_words(event.instances)
        elif isinstance(event, EpochEnded | Evaluated):
            self._result(event)

    def _result(self, event: EpochEnded | Evaluated) -> None:
        self._redraw("")
        if isinstance(event, Evaluated):
            print_line(f"test data  {_metrics(event.loss, event.accuracy)}")
        else:
            metrics = _metrics(event.loss, event.accuracy)
            title = f"epoch {event.epoch}/{self._spec.train.epochs}"
            print_line(
                f"{title}  {metrics}  {_times(event)}{self._printed(event.epoch)}"
            )
        sys.stdout.flush()

    def _printed(self, epoch: int) -> str:
        accuracy = self._document.of(epoch, "accuracy")
        if accuracy is None:
            return ""
        return f"  (the document prints {four_decimals(accuracy)})"

    def _ended(self, event: RunEnded) -> None:
        self._redraw("")
        if self._instances and not self._quiet:
            say(self._instances)
        if event.status is RunStatus.FAILED:
            say(f"the run failed: {event.message}")
        elif not self._quiet:
            seconds = duration(float(event.summary.get("seconds", 0.0)))
            say(f"{event.status.value} after {seconds}")

    def _comment(self, text: str) -> None:
        self._redraw("")
        say(text)

    def _progress(self, event: Progressed) -> str:
        filled = _BAR_WIDTH * event.step // max(event.steps, 1)
        bar = "#" * filled + "-" * (_BAR_WIDTH - filled)
        left_s = (event.steps - event.step) * event.host_step_ms / 1e3
        return (
            f"epoch {event.epoch}/{self._spec.train.epochs} [{bar}] "
            f"{event.step}/{event.steps}  {_metrics(event.loss, event.accuracy)}  "
            f"{duration(left_s)} left"
        )

    def _redraw(self, line: str) -> None:
        if self._live:
            self._stream.write(f"\r\x1b[K{line}")
            self._stream.flush()


def _times(event: EpochEnded) -> str:
    text = (
        f"{microseconds(event.host_ms_per_batch * 1e3)} per batch, "
        f"{count(event.host_samples_per_second)} samples/s measured"
    )
    if not event.ipu_us_per_batch:
        return text
    return (
        f"{text}, {microseconds(event.ipu_us_per_batch)}, "
        f"{count(event.samples_per_second)} samples/s modelled"
    )


def _metrics(loss: float, accuracy: float | None) -> str:
    shown = f"loss {four_decimals(loss)}"
    return shown if accuracy is None else f"{shown}  accuracy {four_decimals(accuracy)}"
