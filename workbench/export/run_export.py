"""Runs for other programs: rows for a spreadsheet, or one JSON object."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from ipu_runtime.plan.plain_data import plain
from workbench.comparing.outcome import outcome_of
from workbench.runs.event_json import event_to_json
from workbench.runs.events import EpochEnded, Evaluated, Progressed
from workbench.runs.run_notes import read_notes
from workbench.runs.run_store import StoredRun

COLUMNS = (
    "run_id",
    "preset",
    "event",
    "epoch",
    "step",
    "steps",
    "loss",
    "accuracy",
    "host_ms_per_batch",
    "ipu_us_per_batch",
    "host_samples_per_second",
    "samples_per_second",
    "host_step_ms",
    "ipu_step_us",
    "replicas",
    "batch_size",
    "seconds",
    "call",
)
"""Of the CSV file; what begins with `host` is measured, as are seconds; a step moves as
many batches as there are replicas."""


def runs_to_csv(runs: Iterable[StoredRun]) -> str:
    """Return every measurement of the runs, a row each."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for run in runs:
        for event in run.events():
            if isinstance(event, Progressed | EpochEnded | Evaluated):
                row = {"run_id": run.run_id, "preset": run.preset}
                row |= event_to_json(event)
                writer.writerow({name: _cell(value) for name, value in row.items()})
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Return a value; texts that a spreadsheet would take for a formula are quoted."""
    formula = isinstance(value, str) and value.startswith(
        ("=", "+", "-", "@", "\t", "\r")
    )
    return f"'{value}" if formula else value


def run_to_json(run: StoredRun, *, with_events: bool = True) -> dict[str, Any]:
    """Return a run as one object."""
    value: dict[str, Any] = {
        "event": "run",
        "run_id": run.run_id,
        "preset": run.preset,
        "group": run.group,
        "status": run.status.value,
        "message": run.message,
        "created": run.created,
        "ended": run.ended,
        "directory": str(run.directory),
        "notes": read_notes(run.directory),
        "metrics": outcome_of(run),
        "summary": run.summary,
        "spec": run.tables,
    }
    if with_events:
        value["events"] = [event_to_json(event) for event in run.events()]
    result: dict[str, Any] = plain(value)
    return result
