"""The way from one run to another as a table with bars."""

from __future__ import annotations

import sys

from workbench.comparing.explaining import Explanation, change_words
from workbench.comparing.explanation_lines import ORDER_NOTE, waterfall
from workbench.headless.output import print_line, print_table
from workbench.runs.run_store import StoredRun

_BAR = 24


def print_explanation(
    first: StoredRun, second: StoredRun, explanation: Explanation
) -> None:
    """Print what every changed field costs or gains."""
    print_line(f"from {first.run_id} to {second.run_id}, one changed field at a time")
    if explanation.problem:
        print_line(f"nothing can be told: {explanation.problem}")
        return
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    rows = [
        (
            item.words,
            item.delta,
            item.us,
            item.samples_per_second,
            item.memory,
            _bar(item.begin, item.end, "#" if plain else "█"),
        )
        for item in waterfall(explanation, first.run_id, second.run_id)
    ]
    per = f"per {explanation.unit}, modelled"
    print_table(("", "change", per, "samples/s", "memory", ""), rows)
    print_line("memory is how full the fullest tile is")
    if explanation.without_effect:
        print_line("without effect on the modelled time:")
    for item in explanation.without_effect:
        print_line(f"  {change_words(item)}")
    for text in explanation.training:
        print_line(f"It trains otherwise: {text}.")
    if len(explanation.steps) > 2:
        print_line(ORDER_NOTE)


def _bar(begin: float, end: float, full: str) -> str:
    first, last = round(begin * _BAR), round(end * _BAR)
    return " " * first + full * max(last - first, 1)
