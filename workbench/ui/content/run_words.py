"""Words and symbols for how a run stands; never colour alone."""

from __future__ import annotations

from datetime import datetime

from ipu_runtime.reports.document import BAD, GOOD, MARK, MUTED, WARN
from workbench.runs.events import RunStatus

SYMBOLS: dict[RunStatus, tuple[str, str]] = {
    RunStatus.QUEUED: ("○", MUTED),
    RunStatus.RUNNING: ("▶", MARK),
    RunStatus.PAUSED: ("‖", WARN),
    RunStatus.FINISHED: ("✓", GOOD),
    RunStatus.STOPPED: ("■", WARN),
    RunStatus.FAILED: ("✗", BAD),
    RunStatus.KILLED: ("✗", BAD),
    RunStatus.DAMAGED: ("✗", BAD),
}
"""Sign and style of every status."""


def begun_text(begun: datetime | None) -> str:
    """Return when a run began, always in the same width."""
    return begun.strftime("%d %b %H:%M") if begun else ""
