"""One line that says what came of a run, beside what its document prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.describe import figure
from workbench.core.events import RunStatus
from workbench.core.experiment_spec import Figure
from workbench.core.run_monitor import RunMonitor


def verdict(monitor: RunMonitor, figures: Sequence[Figure]) -> str:
    """Return what the run reached; for a run that broke, why."""
    if monitor.status is RunStatus.FAILED:
        return f"failed: {monitor.message}"
    if not monitor.epochs:
        return f"{monitor.status.value} before the first epoch ended"
    last = monitor.epochs[-1]
    unit = "epoch" if last.epoch == 1 else "epochs"
    metric = "loss" if last.accuracy is None else "accuracy"
    value = getattr(last, metric)
    text = f"{metric} {figure(value)} after {last.epoch} {unit}"
    printed = printed_figure(figures, last.epoch, metric)
    if printed is not None:
        text += f", the document prints {figure(printed)}"
    if monitor.evaluation is not None and monitor.evaluation.accuracy is not None:
        text += f"; on test data {figure(monitor.evaluation.accuracy)}"
    return f"stopped: {text}" if monitor.status is RunStatus.STOPPED else text


def printed_figure(figures: Sequence[Figure], epoch: int, name: str) -> float | None:
    """Return what the document prints for an epoch."""
    for item in figures:
        if item.epoch == epoch:
            value: float | None = getattr(item, name)
            return value
    return None


def figures_in(tables: Mapping[str, Any]) -> tuple[Figure, ...]:
    """Return the document's figures, whatever else is wrong with the experiment."""
    experiment = tables.get("experiment")
    rows = experiment.get("figures", ()) if isinstance(experiment, Mapping) else ()
    names = Figure.__dataclass_fields__
    return tuple(
        Figure(**{key: value for key, value in row.items() if key in names})
        for row in rows
        if isinstance(row, Mapping) and isinstance(row.get("epoch"), int)
    )
