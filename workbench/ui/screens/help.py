"""Help: what an area is for, and every key."""

from __future__ import annotations

from collections.abc import Mapping

from textual.content import Content

from ipu_runtime.reports.document import HEADING, MARK, MUTED
from workbench.ui.actions import ActionSpec, Scope, actions_in, all_keys
from workbench.ui.screens.reader import Reader
from workbench.views.cells import fit, wrapped
from workbench.views.content import line, lines

_KEYS, _TITLE = 15, 26
_REMAPPING = (
    "ctrl+p finds every action by name. Other keys are set in the table [keys] of "
    'settings.toml by the id of the action, for example run.start = "f8".'
)
_ABOUT = {
    Scope.START: "Pick a preset or a run. What the preset would do on an IPU is "
    "modelled from its file alone; nothing runs before F5.",
    Scope.CONFIGURE: "Change fields. The plan beside the form follows at once. A wrong "
    "value keeps its reason below the field until it is mended.",
    Scope.STAGES: "Cut the model into pipeline stages, one IPU each. All times and "
    "memory are modelled.",
    Scope.TIMELINE: "IPUs as rows, tasks as cells: F forward, B backward, R recompute, "
    "W weight gradients, U update.",
    Scope.RUN: "The training runs on this machine: measured times are of this "
    "machine, modelled ones are what the plan says for an IPU; all are per batch of "
    "data, over all replicas.",
    Scope.CHART: "Tab goes to the next chart. The dotted line is what the document "
    "prints.",
    Scope.RUNS: "Every run, those of other processes too.",
    Scope.COMPARE: "Marked runs side by side: what was set differently, and what came "
    "of it.",
    Scope.REPORT: "Where the modelled time and memory of the experiment go, and what "
    "was measured here.",
    Scope.SCRIPT: "The experiment as a script for the real API; it also runs here: "
    "ipu-workbench exec SCRIPT.",
}


class HelpScreen(Reader):
    """Keys of the area first, then those that work everywhere."""

    def __init__(
        self, scopes: tuple[Scope, ...], keymap: Mapping[str, str], reading: str = ""
    ) -> None:
        super().__init__(
            "Help", lambda width: help_text(scopes, keymap, reading, width)
        )


def help_text(
    scopes: tuple[Scope, ...], keymap: Mapping[str, str], reading: str, width: int
) -> Content:
    """Return the help for some scopes."""
    rows: list[Content] = [line(row) for row in wrapped(reading, width) if reading]
    rows += [line("")] if reading else []
    for scope in (*scopes, Scope.APP):
        rows.append(line((scope.value, HEADING)))
        if scope in _ABOUT:
            rows += [line(row) for row in wrapped(_ABOUT[scope], width)]
        for spec in actions_in(scope):
            rows += _action(spec, keymap, width)
        rows.append(line(""))
    rows += [line((row, MUTED)) for row in wrapped(_REMAPPING, width)]
    return lines(*rows)


def _action(spec: ActionSpec, keymap: Mapping[str, str], width: int) -> list[Content]:
    text = wrapped(spec.tooltip, width - _KEYS - _TITLE - 1)
    keys, title = fit(f"  {all_keys(spec, keymap)}", _KEYS), fit(spec.title, _TITLE)
    first = line((keys, MARK), title, (text[0], MUTED))
    indent = " " * (_KEYS + _TITLE)
    return [first, *(line((indent + row, MUTED)) for row in text[1:])]
