"""The two lists of the sidebar: presets by what they teach, runs newest first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby

from ipu_runtime.reports.document import BAD, HEADING, MARK, MUTED
from workbench.experiment.preset_store import Preset
from workbench.services.run_entries import RunEntry
from workbench.ui.content.run_words import SYMBOLS
from workbench.ui.widgets.row_list import Row, RowList
from workbench.views.cells import fit, fit_apart, wrapped
from workbench.views.content import line

_ROOM_FOR_TIME = 26
_NO_RUNS = "no runs yet: F5 starts one"
MOST_ROWS = 2_000
"""Runs that a list draws; more would keep every key waiting."""


class PresetList(RowList):
    """The cursor decides which experiment is on the screen."""

    def show_presets(
        self, presets: Sequence[Preset], changed: Collection[str], words: str
    ) -> None:
        """Show the presets that contain all words, those with changes marked."""
        chosen = [
            preset
            for preset in presets
            if _contains(f"{preset.name} {preset.title} {preset.group}", words)
        ]
        room = max(8, self.scrollable_content_region.width - 2)
        names = [preset.name for preset in chosen]
        cut = dict(zip(names, fit_apart(names, room), strict=True))
        rows: list[Row] = []
        for group, members in groupby(chosen, key=lambda preset: preset.group):
            rows.append(Row(line((group, HEADING))))
            rows += [
                self._row(preset, cut[preset.name].rstrip(), preset.name in changed)
                for preset in members
            ]
        if not rows:
            text = f'no preset contains "{words}"'
            rows += [Row(line((row, MUTED))) for row in wrapped(text, room + 2)]
        hidden = [item.name for item in presets if item.problems and item not in chosen]
        if hidden:
            rows.append(Row(line(("✗ hidden, cannot be read", BAD))))
            rows += [Row(line(f"  {name}")) for name in hidden]
        self.set_rows(rows)

    def _row(self, preset: Preset, name: str, changed: bool) -> Row:
        mark = ("•", MARK) if changed else ("✗", BAD) if preset.problems else " "
        return Row(line(mark, " ", name), preset.name)


class RunList(RowList):
    """Entries with status sign, preset and result."""

    def show_runs(
        self, found: Sequence[RunEntry], marked: Collection[str], words: str
    ) -> None:
        """Show what a filter has let through, the marked ones with a sign."""
        width = max(20, self.scrollable_content_region.width)
        shown = found[:MOST_ROWS]
        rows = [self._row(entry, entry.key in marked, width) for entry in shown]
        if len(found) > len(shown):
            text = f"{len(found) - len(shown):,} older: / filters"
            rows.append(Row(line((text, MUTED))))
        if not rows:
            text = f'no run contains "{words}"' if words else _NO_RUNS
            rows = [Row(line((row, MUTED))) for row in wrapped(text, width)]
        self.set_rows(rows)

    def _row(self, entry: RunEntry, marked: bool, width: int) -> Row:
        sign, style = SYMBOLS[entry.status]
        timed = entry.begun is not None and width >= _ROOM_FOR_TIME
        begun = f"{entry.begun:%H:%M} " if timed else ""
        pin = "▴" if entry.notes.pinned else " "
        room = width - 4 - len(entry.result) - 1 - len(begun)
        return Row(
            line(
                ("•", MARK) if marked else " ",
                (sign, style),
                (pin, MARK),
                (begun, MUTED),
                f"{fit(entry.name, room)} ",
                (entry.result, MUTED),
            ),
            entry.key,
        )


def _contains(text: str, words: str) -> bool:
    if not words:
        return True
    return all(word in text.lower() for word in words.lower().split())
