"""Runs side by side: which are marked, what differs, and what that has cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.runs.run_store import StoredRun
from workbench.services.refused import Refused
from workbench.services.runs import Runs
from workbench.services.started_run import StartedRun
from workbench.store_files import size_of

if TYPE_CHECKING:
    from workbench.comparing.compare import Comparison
    from workbench.comparing.explaining import Explanation

_SAME = ("file", "arguments")
"""What runs of the same script have in common."""


class MarkedRuns:
    """The runs that are marked for comparison, in the order of marking."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.keys: list[str] = []
        """Of the marked runs."""
        self._paired: list[str] = []
        """Runs that were marked because one follows the other."""
        self._compared: tuple[object, Comparison] | None = None
        runs.renamed.connect(self._renamed)
        runs.run_ended.connect(self._mark_pair)

    def toggle(self, key: str) -> None:
        """Put a run into the comparison, or take it out."""
        (self.keys.remove if key in self.keys else self.keys.append)(key)
        self._runs.queue_changed.emit(self._runs)

    def clear(self) -> None:
        """Take all runs out of the comparison."""
        self.keys.clear()
        self._runs.queue_changed.emit(self._runs)

    def _renamed(self, names: tuple[str, str]) -> None:
        old, new = names
        keys = [new if key == old else key for key in self.keys]
        self.keys[:] = [key for key in keys if key]

    def _mark_pair(self, run: StartedRun) -> None:
        """Mark a script's run and the one before it; the user's own marks stay."""
        before = self._one_before(run)
        if before and self.keys == self._paired:
            self._paired = [before, run.key]
            self.keys[:] = self._paired

    def _one_before(self, run: StartedRun) -> str:
        script, entries = run.tables.get("script", {}), self._runs.newest_first()
        keys = [one.key for one in entries if one.preset == run.preset]
        for key in keys[keys.index(run.key) + 1 :]:
            known = self._runs.tables(key).get("script")
            if known and all(known.get(name) == script.get(name) for name in _SAME):
                return key
        return ""

    @property
    def records(self) -> list[StoredRun]:
        """The marked runs that have a record."""
        found = (self._runs.record(key) for key in self.keys)
        return [run for run in found if run is not None]

    def compared(self) -> Comparison:
        """Return the marked runs side by side, read again when one has grown."""
        # It loads the planner, which the app's first frame does without.
        from workbench.comparing.compare import compare_runs

        runs = self.records
        sizes = [size_of(run.directory / "metrics.jsonl") for run in runs]
        if self._compared is None or self._compared[0] != (runs, sizes):
            self._compared = (runs, sizes), compare_runs(runs)
        return self._compared[1]


def compared(runs: Sequence[StoredRun]) -> Comparison:
    """Return runs side by side; refuse fewer than two."""
    if len({run.run_id for run in runs}) < 2:
        raise Refused("a run cannot be compared to itself", "name two or more", "RUN")
    # Late, as above.
    from workbench.comparing.compare import compare_runs

    return compare_runs(runs)


def explained(runs: Sequence[StoredRun]) -> Explanation:
    """Return what lies between two runs, one changed field after the other."""
    if len(runs) != 2:
        text = f"goes from one run to another, not between {len(runs)}"
        raise Refused(text, "name two", "--explain")
    # Late, as above.
    from workbench.comparing.explaining import explain

    return explain(*runs)
