"""An explanation as lines of a waterfall, for commands and screens alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ipu_runtime.plan.quantities import change, count, microseconds, share
from workbench.comparing.explaining import ExplainedStep, Explanation, change_words
from workbench.comparing.run_names import short_names

ORDER_NOTE = (
    "Steps are taken in this order; in another one the same changes can share the "
    "difference otherwise."
)


@dataclass(frozen=True, slots=True)
class WaterfallLine:
    """One line: what changed, what it cost, and where a bar would stand."""

    words: str
    delta: str
    """Signed time and share of the time before; empty at both ends."""
    us: str
    samples_per_second: str
    memory: str
    begin: float
    """Where its bar begins, as a share of the longest time."""
    end: float
    better: bool | None
    """Whether it takes less time than before; None at both ends."""


def waterfall(explanation: Explanation, first: str, second: str) -> list[WaterfallLine]:
    """Return the lines from one run to the other, both ends included."""
    steps = explanation.steps
    longest = max(step.us for step in steps)
    names = short_names([item.path for step in steps for item in step.changes])
    lines, before = [], 0.0
    for number, step in enumerate(steps):
        lines.append(
            WaterfallLine(
                _words(step, names) if number else first,
                _delta(step, before) if number else "",
                microseconds(step.us),
                count(step.samples_per_second),
                share(step.memory_fraction),
                min(before, step.us) / longest if number else 0.0,
                max(before, step.us) / longest,
                step.delta_us < 0 if number else None,
            )
        )
        before = step.us
    last = steps[-1]
    end = WaterfallLine(
        second,
        f"{change(last.us, steps[0].us)} in all",
        microseconds(last.us),
        count(last.samples_per_second),
        share(last.memory_fraction),
        0.0,
        last.us / longest,
        None,
    )
    return [*lines, end]


def _words(step: ExplainedStep, names: Mapping[str, str]) -> str:
    return " with ".join(change_words(item, names) for item in step.changes)


def _delta(step: ExplainedStep, before: float) -> str:
    size = microseconds(abs(step.delta_us))
    if size.startswith("0.00"):
        return "hardly any"
    return f"{'+' if step.delta_us > 0 else '-'}{size} ({change(step.us, before)})"
