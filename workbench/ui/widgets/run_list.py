"""Runs, newest first: those of this app, and those that records tell of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from workbench.core.events import RunStatus
from workbench.core.run_store import StoredRun
from workbench.ui.content.pieces import MARK, MUTED, fit, line
from workbench.ui.content.run_words import SYMBOLS
from workbench.ui.run_board import LiveRun
from workbench.ui.widgets.row_list import Row, RowList


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A run as the list shows it."""

    key: str
    preset: str
    status: RunStatus
    result: str

    @classmethod
    def of_live(cls, run: LiveRun) -> RunEntry:
        """Return the entry of a run of this app."""
        monitor = run.monitor
        if monitor.status is RunStatus.RUNNING:
            result = f"{monitor.fraction * 100:.0f} %"
        else:
            result = _result(
                monitor.status, monitor.epochs[-1].accuracy if monitor.epochs else None
            )
        return cls(run.key, monitor.preset, monitor.status, result)

    @classmethod
    def of_record(cls, run: StoredRun) -> RunEntry:
        """Return the entry of a recorded run."""
        accuracy = run.summary.get("accuracy")
        number = accuracy if isinstance(accuracy, int | float) else None
        return cls(run.run_id, run.preset, run.status, _result(run.status, number))


def _result(status: RunStatus, accuracy: float | None) -> str:
    if status is RunStatus.FINISHED and accuracy is not None:
        return f"{accuracy:.3f}"
    return status.value


class RunList(RowList):
    """Entries with status sign, preset and result."""

    def show_runs(
        self, entries: Sequence[RunEntry], marked: Collection[str], words: str
    ) -> None:
        """Show the runs that contain all words, the marked ones with a sign."""
        width = max(20, self.scrollable_content_region.width)
        chosen = [
            entry
            for entry in entries
            if all(
                word in f"{entry.preset} {entry.status.value} {entry.key}".lower()
                for word in words.lower().split()
            )
        ]
        rows = [self._row(entry, entry.key in marked, width) for entry in chosen]
        if not rows:
            text = "no run contains it" if words else "no runs yet: F5 starts one"
            rows = [Row(line((text, MUTED)))]
        self.set_rows(rows)

    def _row(self, entry: RunEntry, marked: bool, width: int) -> Row:
        sign, style = SYMBOLS[entry.status]
        room = width - 4 - len(entry.result) - 1
        return Row(
            line(
                ("•", MARK) if marked else " ",
                (sign, style),
                f" {fit(entry.preset, room)} ",
                (entry.result, MUTED),
            ),
            entry.key,
        )
