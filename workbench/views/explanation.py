"""The way from one run to another: what every changed field costs, as a waterfall."""

from __future__ import annotations

from collections.abc import Mapping

from ipu_runtime.plan.quantities import change, count, microseconds, share
from ipu_runtime.reports.document import (
    BAD,
    FILLED,
    GOOD,
    MUTED,
    STRONG,
    WARN,
    Bar,
    Column,
    Document,
    Note,
    Row,
    Section,
    Span,
    Table,
)
from workbench.comparing.explaining import ExplainedStep, Explanation, change_words
from workbench.comparing.run_names import short_names


def explanation_document(explanation: Explanation, first: str, second: str) -> Document:
    """Return what every changed field costs or gains, both runs at the ends."""
    title = f"from {first} to {second}, one changed field at a time"
    if explanation.problem:
        note = Note(f"Nothing can be told: {explanation.problem}.")
        return Document(title, (Section("", (note,)),))
    notes = (
        f"All times are modelled and of one {explanation.unit}; memory is how full the "
        "fullest tile is."
    )
    if len(explanation.steps) > 2:
        notes += (
            " Steps are taken in this order; in another one the same changes can share "
            "the difference otherwise."
        )
    idle = [Note(change_words(x), hanging=2) for x in explanation.without_effect]
    training = [Note(f"It trains otherwise: {x}.", WARN) for x in explanation.training]
    sections = (
        Section("", (_waterfall(explanation, first, second),)),
        Section("without effect on the modelled time", tuple(idle)),
        Section("", (*training, Note(notes, MUTED))),
    )
    return Document(title, tuple(section for section in sections if section.parts))


def _waterfall(explanation: Explanation, first: str, second: str) -> Table:
    steps = explanation.steps
    longest = max(step.us for step in steps)
    names = short_names([item.path for step in steps for item in step.changes])
    columns = (
        Column(least=18, wraps=True),
        Column("change", right=True),
        Column(f"per {explanation.unit}", right=True),
        Column("samples/s", right=True, rank=1),
        Column("memory", right=True),
        Column(bar=(12, 24), rank=2),
    )
    start, end = steps[0], steps[-1]
    rows = [_row(first, "", start, Bar(start.us / longest), STRONG)]
    before = start.us
    for step in steps[1:]:
        tone = GOOD if step.delta_us < 0 else BAD
        low, high = sorted((before, step.us))
        bar = Bar((high - low) / longest, tone, low / longest)
        rows.append(_row(_words(step, names), _delta(step, before), step, bar, tone))
        before = step.us
    whole = f"{change(end.us, start.us)} in all"
    rows.append(_row(second, whole, end, Bar(end.us / longest), STRONG))
    return Table(columns, tuple(rows))


def _row(words: str, delta: str, step: ExplainedStep, bar: Bar, tone: str) -> Row:
    at_an_end = bar.tone == FILLED
    return Row(
        (
            Span(words, STRONG if at_an_end else ""),
            Span(delta, tone),
            microseconds(step.us),
            count(step.samples_per_second),
            share(step.memory_fraction),
            bar,
        )
    )


def _words(step: ExplainedStep, names: Mapping[str, str]) -> str:
    return " with ".join(change_words(item, names) for item in step.changes)


def _delta(step: ExplainedStep, before: float) -> str:
    size = microseconds(abs(step.delta_us))
    if size.startswith("0.00"):
        return "hardly any"
    return f"{'+' if step.delta_us > 0 else '-'}{size} ({change(step.us, before)})"
