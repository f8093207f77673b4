"""The epochs of a run beside those that its document prints."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_runtime.plan.quantities import (
    count,
    duration,
    four_decimals,
    microseconds,
)
from ipu_runtime.reports.document import (
    MARK,
    MUTED,
    WARN,
    Column,
    Note,
    Part,
    Row,
    Section,
    Table,
)
from workbench.experiment.experiment_spec import Figure
from workbench.experiment.printed_figures import PrintedFigures
from workbench.runs.events import EpochEnded, Evaluated

UNKNOWN = "-"
RESULT_COLUMNS = (
    Column("loss", right=True),
    Column("accuracy", right=True),
    Column("measured", right=True),
    Column("modelled", right=True),
    Column("samples/s", right=True, rank=1),
    Column("modelled", right=True, rank=1),
    Column("took", right=True, rank=2),
)
"""Times per batch, then throughputs; what is not modelled is measured here."""
UNITS = "times per batch of data, over all replicas; measured on this machine"


def epochs_section(
    epochs: Sequence[EpochEnded],
    evaluation: Evaluated | None,
    printed: PrintedFigures,
    most: int = 0,
) -> Section:
    """Return a row per epoch, the document's row below each.

    What may not be compared is left out, and the fields that are the reason are named.

    Args:
        most: Lines there is room for, the newest; 0 for all.
    """
    by_epoch = {item.epoch: item for item in printed.comparable}
    rows = []
    for epoch in epochs:
        rows.append(Row((str(epoch.epoch), *_of_epoch(epoch))))
        if epoch.epoch in by_epoch:
            rows.append(_printed(by_epoch[epoch.epoch]))
    parts: list[Part] = [Note(printed.why_not, WARN)] if printed.why_not else []
    if not epochs:
        parts.insert(0, Note("rows come with the end of an epoch", MUTED))
        rows = [_printed(item) for item in printed.comparable[:3]]
    if most:
        rows = rows[-max(1, most - 2 - len(parts)) :]
    if evaluation is not None:
        rows.append(Row(("test", *_result(evaluation), *[""] * 5), MARK))
    columns = (Column("epoch"), *RESULT_COLUMNS)
    return Section("Epochs", (Table(columns, tuple(rows)), *parts), UNITS)


def result_cells(
    results: tuple[float | None, float | None],
    times: Sequence[float | None],
    rates: Sequence[float | None],
    seconds: float | None,
) -> tuple[str, ...]:
    """Return the cells of `RESULT_COLUMNS`; a time or a rate of 0 is not known.

    Args:
        results: Loss and accuracy.
        times: Per batch, measured in ms and modelled in us.
        rates: Samples/s, measured and modelled.
        seconds: What all of it took.
    """
    host_ms, ipu_us = times
    return (
        *(four_decimals(value, UNKNOWN) for value in results),
        microseconds(host_ms * 1e3) if host_ms else UNKNOWN,
        microseconds(ipu_us) if ipu_us else UNKNOWN,
        *(count(rate) if rate else UNKNOWN for rate in rates),
        duration(seconds) if seconds else UNKNOWN,
    )


def _of_epoch(epoch: EpochEnded) -> tuple[str, ...]:
    rates = epoch.host_samples_per_second, epoch.samples_per_second
    times = epoch.host_ms_per_batch, epoch.ipu_us_per_batch
    results = epoch.loss, epoch.accuracy
    cells = result_cells(results, times, rates, epoch.seconds)
    return cells if epoch.accuracy is not None else (cells[0], "", *cells[2:])


def _result(item: Evaluated | Figure) -> tuple[str, str]:
    return four_decimals(item.loss), four_decimals(item.accuracy)


def _printed(item: Figure) -> Row:
    """Return what a document prints: its times were measured on an IPU."""
    time = "" if item.step_us is None else microseconds(item.step_us)
    seconds = "" if item.seconds is None else f"{item.seconds:g} s"
    return Row(("printed", *_result(item), "", time, "", "", seconds), MUTED)
