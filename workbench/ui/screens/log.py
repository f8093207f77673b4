"""All messages of a run, and what libraries wrote meanwhile."""

from __future__ import annotations

from pathlib import Path

from textual.content import Content

from ipu_runtime.reports.document import BAD, HEADING, MUTED
from ipu_runtime.reports.plain_text import without_terminal_codes
from workbench.runs.run_view import RunView
from workbench.store_files import names_in, read_end, status_of
from workbench.ui.content.run_tables import log_lines
from workbench.ui.screens.reader import Reader
from workbench.views.cells import wrapped
from workbench.views.content import line, lines

_MOST_BYTES = 20_000


class LogScreen(Reader):
    """Messages first, then the files of the run and of its instances."""

    def __init__(self, monitor: RunView, path: Path | None) -> None:
        title = f"Log of {monitor.run_id or monitor.preset}"
        super().__init__(title, lambda width: _text(monitor, path, width))


def _text(monitor: RunView, path: Path | None, width: int) -> Content:
    rows = [log_lines(monitor, len(monitor.log) or 1)]
    if monitor.message:
        rows += [line((row, BAD)) for row in wrapped(monitor.message, width)]
    for log in _logs(path) if path is not None else ():
        name = log.name if log == path else f"instances/{log.name}"
        try:
            written = read_end(log, _MOST_BYTES).decode(errors="replace")
        except OSError as error:
            written = f"it cannot be read: {error.strerror}"
        written = without_terminal_codes(written)
        if written.strip():
            rows += [line(""), line((name, HEADING)), *_folded(written, width)]
        else:
            rows += [line(""), line((f"{name} is empty", MUTED))]
    return lines(*rows)


def _logs(path: Path) -> list[Path]:
    """Return the log of a run and those of its instances."""
    own = path.parent / "instances"
    names = [name for name in names_in(own) if name.endswith(".log")]
    logs = [path, *(own / name for name in sorted(names, key=len))]
    return [log for log in logs if status_of(log)]


def _folded(text: str, width: int) -> list[Content]:
    return [
        line(text_line[begin : begin + width])
        for text_line in text.splitlines()
        for begin in range(0, max(1, len(text_line)), max(1, width))
    ]
