"""The way from one run to another, as a waterfall of bars."""

from __future__ import annotations

from textual.content import Content

from ipu_runtime.reports.document import BAD, GOOD, HEADING, MUTED, WARN
from workbench.comparing.explaining import Explanation, change_words
from workbench.comparing.explanation_lines import (
    ORDER_NOTE,
    WaterfallLine,
    waterfall,
)
from workbench.views.cells import wrapped
from workbench.views.content import line, lines

_DELTA, _TIME, _MEMORY, _RATE, _BAR = 20, 9, 7, 10, 14
_WIDE = 84


def explanation_text(
    explanation: Explanation, first: str, second: str, width: int
) -> Content:
    """Return what every changed field costs, in modelled time."""
    if explanation.problem:
        return line(f"Nothing can be told: {explanation.problem}.")
    wide = width >= _WIDE
    room = width - _DELTA - _TIME - _MEMORY - (_RATE + _BAR + 3 if wide else 0)
    heading = (
        f"{'':<{room}}{'change':>{_DELTA}}{explanation.unit:>{_TIME}}"
        f"{'memory':>{_MEMORY}}"
    )
    rows = [line((heading + (f"{'samples/s':>{_RATE}}" if wide else ""), MUTED))]
    for item in waterfall(explanation, first, second):
        rows += _lines(item, room, wide)
    if explanation.without_effect:
        rows += [line(""), line(("without effect on the modelled time", HEADING))]
        rows += [
            line(f"  {text}")
            for change in explanation.without_effect
            for text in wrapped(change_words(change), width - 2)
        ]
    for text in explanation.training:
        rows += [
            line((row, WARN)) for row in wrapped(f"It trains otherwise: {text}.", width)
        ]
    notes = (
        f"All times are modelled and of one {explanation.unit}; memory is how full "
        f"the fullest tile is. {ORDER_NOTE}"
    )
    return lines(*rows, line(""), *(line((t, MUTED)) for t in wrapped(notes, width)))


def _lines(item: WaterfallLine, room: int, wide: bool) -> list[Content]:
    first, *more = wrapped(item.words, room - 1)
    end = item.better is None
    style = "bold" if end else GOOD if item.better else BAD
    begin = min(round(item.begin * _BAR), _BAR - 1)
    stop = round(item.end * _BAR)
    bar = " " * begin + "█" * max(1, stop - begin)
    rest = f"{item.samples_per_second:>{_RATE}}   " if wide else ""
    return [
        line(
            (f"{first:<{room}}", "bold" if end else ""),
            (f"{item.delta:>{_DELTA}}", style),
            f"{item.us:>{_TIME}}{item.memory:>{_MEMORY}}{rest}",
            (bar if wide else "", "$primary" if end else style),
        ),
        *(line(text) for text in more),
    ]
