"""Words and symbols for how a run stands; never colour alone."""

from __future__ import annotations

from workbench.core.events import RunStatus
from workbench.ui.content.pieces import BAD, GOOD, MARK, MUTED, WARN

SYMBOLS: dict[RunStatus, tuple[str, str]] = {
    RunStatus.QUEUED: ("○", MUTED),
    RunStatus.RUNNING: ("▶", MARK),
    RunStatus.PAUSED: ("‖", WARN),
    RunStatus.FINISHED: ("✓", GOOD),
    RunStatus.STOPPED: ("■", WARN),
    RunStatus.FAILED: ("✗", BAD),
    RunStatus.KILLED: ("✗", BAD),
}
"""Sign and style of every status."""
