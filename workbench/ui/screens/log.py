"""All messages of a run, and what libraries wrote meanwhile."""

from __future__ import annotations

from pathlib import Path

from textual.content import Content

from workbench.core.run_monitor import RunMonitor
from workbench.ui.content.pieces import HEADING, MUTED, line, lines
from workbench.ui.content.run_tables import log_lines
from workbench.ui.screens.reader import Reader

_MOST_CHARACTERS = 20_000


class LogScreen(Reader):
    """Messages first, then the run's log file."""

    def __init__(self, monitor: RunMonitor, path: Path | None) -> None:
        super().__init__(
            f"Log of {monitor.run_id or monitor.preset}", _text(monitor, path)
        )


def _text(monitor: RunMonitor, path: Path | None) -> Content:
    rows = [log_lines(monitor, len(monitor.log) or 1)]
    if path is not None and path.exists():
        written = path.read_text(encoding="utf-8", errors="replace")[-_MOST_CHARACTERS:]
        if written.strip():
            rows += [line(""), line(("run.log", HEADING)), Content(written)]
        else:
            rows += [line(""), line(("run.log is empty", MUTED))]
    return lines(*rows)
