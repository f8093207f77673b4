"""What the Run area says of a script: its calls, what it prints, what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textual.content import Content

from ipu_runtime.plan.quantities import plural
from ipu_runtime.reports.document import HEADING, MUTED
from ipu_runtime.reports.plain_text import without_terminal_codes
from workbench.runs.events import CallBegan, RunStatus
from workbench.runs.run_view import RunView
from workbench.scripts.script_command import ScriptCommand
from workbench.store_files import read_end
from workbench.views.cells import cell_width, wrapped
from workbench.views.content import StyledPart, line, lines

_MOST_BYTES = 4_000
_KEYS = "  [ ] other calls"
_ASKED = "EOFError"


def opened_script(command: ScriptCommand, width: int) -> Content:
    """Return what stands there before an opened script has run."""
    rows = [line((f" {command.title}", HEADING))]
    if command.changes:
        rows.append(line((f" laid over it: {'  '.join(command.changes)}", "")))
    text = (
        "F5 runs it as it is, in a process of its own: curves of its calls grow here, "
        "and what it prints. k makes an experiment of it, for Configure and Stages."
    )
    return lines(*rows, *(line((f" {row}", MUTED)) for row in wrapped(text, width - 2)))


def calls_line(calls: Sequence[CallBegan], chosen: str, width: int) -> Content:
    """Return the calls of a script, as many around the chosen one as there is room."""
    if not calls:
        return line((" no program on the IPU yet", MUTED))
    names = [call.call for call in calls]
    at = names.index(chosen) if chosen in names else len(names) - 1
    texts = [f" {_call_words(call)} " for call in calls]
    room = width - 4 - (len(_KEYS) if len(calls) > 1 else 0)
    first = last = at
    while True:
        wider = [(first - 1, last), (first, last + 1)]
        fitting = [
            (low, high)
            for low, high in wider
            if low >= 0
            and high < len(texts)
            and sum(cell_width(text) + 1 for text in texts[low : high + 1]) <= room
        ]
        if not fitting:
            break
        first, last = fitting[0]
    parts: list[StyledPart] = [" … " if first else " "]
    for index in range(first, last + 1):
        style = "reverse" if names[index] == chosen else ""
        parts += [(texts[index], style), " "]
    parts.append("…" if last < len(texts) - 1 else "")
    return line(*parts, (_KEYS if len(calls) > 1 else "", MUTED))


def _call_words(call: CallBegan) -> str:
    if not call.steps:
        return f"{call.call} of {call.name}"
    if call.epochs > 1:
        return f"{call.call}: {call.epochs} x {plural(call.steps, 'step')}"
    return f"{call.call}: {plural(call.steps, 'step')}"


def printed_lines(log: Path, most: int) -> Content | None:
    """Return the newest lines that a script has printed; None if there are none."""
    try:
        content = read_end(log, _MOST_BYTES)
    except OSError:
        return None
    rows = without_terminal_codes(content.decode(errors="replace")).splitlines()
    rows = rows[1:] if len(content) == _MOST_BYTES and len(rows) > 1 else rows
    newest = [row for row in rows if row.strip()][-most:]
    return lines(*(line((f" {row}", "")) for row in newest)) if newest else None


def script_next(monitor: RunView) -> str:
    """Return what to do after a script has ended."""
    if monitor.message.startswith(_ASKED):
        return "it asks for input, which it has none of here: o gives it arguments"
    if monitor.status is RunStatus.FAILED:
        return "next: l shows what it printed, a runs it again"
    if not monitor.calls:
        return "next: l shows what it printed"
    return "next: 6 shows its plan, space marks it, k makes an experiment of it"
