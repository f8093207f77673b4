"""What `run.json` says in short of what happened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.runs.event_json import PER_BATCH
from workbench.runs.events import Compiled, EpochEnded, Evaluated, Event


def noted(event: Event) -> dict[str, Any]:
    """Return what an event changes in the summary."""
    if isinstance(event, EpochEnded):
        return {
            "epochs": event.epoch,
            "loss": event.loss,
            "accuracy": event.accuracy,
            "host_step_ms": event.host_step_ms,
            "ipu_step_us": event.ipu_step_us,
            **{name: getattr(event, name) or None for name in PER_BATCH},
        }
    if isinstance(event, Evaluated):
        return {"test_loss": event.loss, "test_accuracy": event.accuracy}
    if isinstance(event, Compiled) and event.program == "training":
        return {"executor": event.executor}
    return {}


def summary_of(events: Iterable[Event]) -> dict[str, Any]:
    """Return the summary of what has happened so far."""
    summary: dict[str, Any] = {}
    for event in events:
        summary |= noted(event)
    return summary
