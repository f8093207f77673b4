"""One line that says what came of a run, beside what its document prints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ipu_runtime.plan.quantities import four_digits
from workbench.experiment.printed_figures import PrintedFigures
from workbench.experiment.tables import field_value
from workbench.runs.events import RunStatus
from workbench.runs.run_view import RunView


def verdict(monitor: RunView, printed: PrintedFigures) -> str:
    """Return what the run reached; for a run that broke, why."""
    if monitor.status is RunStatus.FAILED:
        return f"failed: {monitor.message}"
    if monitor.status is RunStatus.DAMAGED:
        return monitor.message
    if not monitor.epochs and monitor.calls:
        return _of_calls(monitor)
    if monitor.script and not monitor.epochs:
        reason = f": {monitor.message}" if monitor.message else ""
        return f"{monitor.status.value} without a program on the IPU{reason}"
    if not monitor.epochs:
        return f"{monitor.status.value} before the first epoch ended"
    last = monitor.epochs[-1]
    unit = "epoch" if last.epoch == 1 else "epochs"
    metric = "loss" if last.accuracy is None else "accuracy"
    value = getattr(last, metric)
    text = f"{metric} {four_digits(value)} after {last.epoch} {unit}"
    figure = printed.of(last.epoch, metric)
    if figure is not None:
        text += f", the document prints {four_digits(figure)}"
    if monitor.evaluation is not None and monitor.evaluation.accuracy is not None:
        text += f"; on test data {four_digits(monitor.evaluation.accuracy)}"
    if printed.learning_differs:
        text += f"; {printed.why_not}"
    return f"stopped: {text}" if monitor.status is RunStatus.STOPPED else text


def _of_calls(monitor: RunView) -> str:
    """Return what a script reached that has no epochs."""
    curve = monitor.series.series().curve("loss")
    count = len(monitor.calls)
    text = f"{monitor.status.value} after {count} call{'s' if count > 1 else ''}"
    if curve.last is None:
        return text
    unit = f"{curve.xs[-1]:.3g} {curve.unit}{'' if curve.xs[-1] == 1 else 's'}"
    return f"{text}; loss {four_digits(curve.last)} after {unit}"


def remedy(monitor: RunView, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that may fix a failed run: of a loss that is no number."""
    broken = monitor.series.series().curve("loss").first_broken
    rate = field_value(tables, "train.learning_rate")
    if monitor.status is not RunStatus.FAILED or broken is None:
        return {}
    usable = isinstance(rate, int | float) and math.isfinite(rate) and rate > 0
    return {"train.learning_rate": float(f"{rate / 10:.3g}")} if usable else {}
