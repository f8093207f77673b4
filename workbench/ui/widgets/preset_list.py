"""Presets, grouped by what they teach."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby

from workbench.core.preset_store import Preset
from workbench.ui.content.pieces import BAD, HEADING, MARK, line
from workbench.ui.widgets.row_list import Row, RowList


class PresetList(RowList):
    """The cursor decides which experiment is on the screen."""

    def show_presets(
        self, presets: Sequence[Preset], changed: Collection[str], words: str
    ) -> None:
        """Show the presets that contain all words, those with changes marked."""
        chosen = [preset for preset in presets if matches(preset, words)]
        rows: list[Row] = []
        for group, members in groupby(chosen, key=lambda preset: preset.group):
            rows.append(Row(line((group, HEADING))))
            rows += [self._row(preset, preset.name in changed) for preset in members]
        if not rows:
            rows.append(Row(line(f'no preset contains "{words}"')))
        self.set_rows(rows)

    def _row(self, preset: Preset, changed: bool) -> Row:
        mark = ("•", MARK) if changed else ("✗", BAD) if preset.problems else " "
        return Row(line(mark, " ", preset.name), preset.name)


def matches(preset: Preset, words: str) -> bool:
    """Tell whether name, title or group contain every word."""
    text = f"{preset.name} {preset.title} {preset.group}".lower()
    return all(word in text for word in words.lower().split())
