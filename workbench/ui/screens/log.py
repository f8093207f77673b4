"""All messages of a run, and what libraries wrote meanwhile."""

from __future__ import annotations

from pathlib import Path

from textual.content import Content

from workbench.core.run_monitor import RunMonitor
from workbench.ui.content.pieces import BAD, HEADING, MUTED, line, lines, wrapped
from workbench.ui.content.run_tables import log_lines
from workbench.ui.screens.reader import Reader

_MOST_CHARACTERS = 20_000


class LogScreen(Reader):
    """Messages first, then the run's log file."""

    def __init__(self, monitor: RunMonitor, path: Path | None) -> None:
        title = f"Log of {monitor.run_id or monitor.preset}"
        super().__init__(title, lambda width: _text(monitor, path, width))


def _text(monitor: RunMonitor, path: Path | None, width: int) -> Content:
    rows = [log_lines(monitor, len(monitor.log) or 1)]
    if monitor.message:
        rows += [line((row, BAD)) for row in wrapped(monitor.message, width)]
    if path is not None and path.exists():
        written = path.read_text(encoding="utf-8", errors="replace")[-_MOST_CHARACTERS:]
        if written.strip():
            rows += [line(""), line(("run.log", HEADING)), *_folded(written, width)]
        else:
            rows += [line(""), line(("run.log is empty", MUTED))]
    return lines(*rows)


def _folded(text: str, width: int) -> list[Content]:
    return [
        line(text_line[begin : begin + width])
        for text_line in text.splitlines()
        for begin in range(0, max(1, len(text_line)), max(1, width))
    ]
