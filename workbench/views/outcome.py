"""The answer to a question for the best plan, as a document and as plain data."""

from __future__ import annotations

import math
from typing import Any

from ipu_runtime.plan.plain_data import plain
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.quantities import (
    count,
    duration,
    microseconds,
    plural,
    share,
)
from ipu_runtime.reports.document import (
    MUTED,
    WARN,
    Column,
    Document,
    Line,
    Note,
    Row,
    Section,
    Span,
    Table,
)
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.optimizing.goal import Goal
from workbench.optimizing.outcome import Outcome, less_exact
from workbench.optimizing.search import Candidate
from workbench.planning.balancing import locked_stages
from workbench.planning.experiment_plan import plan_experiment
from workbench.planning.same_training import training_changes
from workbench.planning.staged_spec import set_arguments

_COLUMNS = (
    Column(),
    Column("samples/s", right=True),
    Column("memory", right=True),
    Column("IPUs", right=True),
    Column("stages", right=True),
    Column("schedule"),
    Column("update of", right=True),
)
_UNDECIDED = "?"
_MOST_SHOWN = 60
"""Characters of a change that are worth reading."""


def outcome_document(outcome: Outcome, title: str) -> Document:
    """Return the best plans, why they are the best, and how sure that is."""
    goal = outcome.aim.goal.value
    asked = f"{update_words(outcome.update_samples)}, {outcome.tried} settings tried"
    subtitle = f"Best {goal} (modelled), {asked}"
    parts = [Note(text) for text in _locked_note(outcome.spec)]
    if not outcome.best:
        parts.append(Note(f"Nothing fits: {remedy(outcome)}"))
        return Document(title, (Section("", tuple(parts)),), subtitle)
    now = plan_experiment(outcome.spec, with_remedies=False)
    legend = "memory: of the fullest tile; update: replicas x micro-batches x samples"
    notes = [legend]
    if outcome.undecided:
        notes.append(
            f"{_UNDECIDED}: undecided, 1 is better by less than the model may be off"
        )
    sections = (
        Section("", tuple(parts)),
        Section(
            "Best settings",
            (
                outcome_table(outcome, now if now.layers else None),
                *(Note(f"({text})", MUTED) for text in notes),
            ),
        ),
        Section("", (Note(certainty(outcome)), Note(outcome.decides[0]))),
        Section(
            "What nothing can be better than, whatever the settings",
            () if outcome.proven else (lower_bound_table(outcome),),
        ),
        Section(
            "What another setting costs, everything else as in 1",
            (_other_settings(outcome),),
        ),
        Section(
            "What would have to be different, with the settings of 1",
            (_different(outcome),),
        ),
        Section("To use 1: --apply 1 writes it; it has", _changes(outcome)),
    )
    return Document(title, tuple(item for item in sections if item.parts), subtitle)


def outcome_table(outcome: Outcome, now: Plan | None = None) -> Table:
    """Return the best settings, what is set now below them; keys are their places."""
    rows = []
    for at, found in enumerate(outcome.best):
        choice = found.choice
        # A row that may be as good as the first is marked.
        name = f"{at + 1}{_UNDECIDED * (at in outcome.undecided)}"
        cells = (
            name,
            *_figures(found.plan),
            str(choice.ipus),
            str(choice.stages),
            choice.schedule if choice.stages > 1 else "",
            f"{choice.replicas} x {choice.accumulation} x {choice.device.micro_batch}"
            f" = {choice.update_samples}",
        )
        # On lines of their own, so that rows fit a terminal of 80 columns.
        more = extras(found)
        below = [Span(f"with {more}", MUTED)] if more else []
        below += [
            Span(text, WARN) for text in training_changes(outcome.spec, found.spec)
        ]
        rows.append(Row(cells, key=str(at), below=tuple(below)))
    if now is not None:
        rows.append(Row(("now", *_figures(now), "", "", "", "")))
    return Table(_COLUMNS, tuple(rows))


def _changes(outcome: Outcome) -> tuple[Line | Note, ...]:
    before, after = outcome.spec, outcome.best[0].spec
    changes = set_arguments(before, after)
    parts: list[Line | Note] = [
        Line((Span(f"--set '{text}'"),)) for text in changes if len(text) <= _MOST_SHOWN
    ]
    long = [text.partition("=")[0] for text in changes if len(text) > _MOST_SHOWN]
    if long:
        parts.append(Note(f"(and {', '.join(long)}, too long to show)"))
    rates = {before.train.learning_rate, after.train.learning_rate}
    reductions = {spec.execution.accumulation_reduction for spec in (before, after)}
    if len(rates) + len(reductions) > 2:
        text = "(learning rate and reduction keep the effective learning rate)"
        parts.append(Note(text))
    return tuple(parts)


def update_words(samples: int) -> str:
    """Return what was asked of weight updates; nothing is trained with 0 either."""
    return f"{samples:,} samples per update" if samples else "any update"


def remedy(outcome: Outcome) -> str:
    """Return what may help where nothing fits."""
    if not outcome.too_large:
        return "more IPUs, a smaller model, or other samples per update"
    first, *others = outcome.too_large
    more = f" (and {plural(len(others), 'other')} likewise)" if others else ""
    return (
        f"layer {first} alone is too large for an IPU{more}; make it smaller, or make "
        "several layers of it"
    )


def _locked_note(spec: ExperimentSpec) -> list[str]:
    """Say what locked layers leave out of the search."""
    locked = locked_stages(spec)
    if not locked:
        return []
    kept = plural(len(locked), "locked layer") + " kept in place (pipeline.locked)"
    last = max(locked.values())
    return [f"{kept}, so there are {last + 1} stages at least" if last else kept]


def outcome_row(outcome: Outcome, name: str) -> dict[str, Any]:
    """Return what `optimize --json` prints; all figures are modelled."""
    return {
        "event": "optimize",
        "preset": name,
        "modelled": True,
        "objective": outcome.aim.goal.value,
        "tried": outcome.tried,
        "update_samples": outcome.update_samples,
        "proven": outcome.proven and bool(outcome.best),
        # JSON has no infinity: nothing is known of what was not tried.
        "gap": outcome.gap if math.isfinite(outcome.gap) else None,
        "lower_bound": {
            "cost": outcome.lower_bound.cost,
            "parts": {part.name: part.amount for part in outcome.lower_bound.parts},
        },
        "best": [
            {
                "samples_per_second": found.plan.samples_per_second,
                "memory_fraction": found.plan.memory_fraction,
                "ipus": found.choice.ipus,
                "replicas": found.choice.replicas,
                "stages": found.choice.stages,
                "update_samples": found.choice.update_samples,
                "training_changes": list(training_changes(outcome.spec, found.spec)),
                "exact_sums": not less_exact(found.choice),
                "changes": list(set_arguments(outcome.spec, found.spec)),
                "undecided": at in outcome.undecided,
            }
            for at, found in enumerate(outcome.best)
        ],
        "decides": outcome.decides[0] if outcome.best else "",
        "different": [plain(item) for item in outcome.different],
        "too_large": list(outcome.too_large),
        "worth": [plain(item) for item in outcome.other_settings],
    }


def extras(found: Candidate) -> str:
    """Return what else a row has switched on."""
    choice, device = found.choice, found.choice.device
    return ", ".join(
        text
        for text, applies in (
            ("recomputation", choice.recompute),
            (f"{choice.elsewhere_text} elsewhere", choice.elsewhere),
            (f"{device.io_tiles} I/O tiles", device.io_tiles),
            ("half partials", device.half_partials),
            (f"proportion {device.proportion}", device.proportion),
        )
        if applies
    )


def _figures(plan: Plan) -> tuple[str, str]:
    return count(plan.samples_per_second), share(plan.memory_fraction)


def certainty(outcome: Outcome) -> str:
    """Say how sure it is that nothing is better."""
    if outcome.proven:
        return "Proven: no other setting that was searched is better, on the model."
    better = "more than twice as good"
    if outcome.gap <= 1:
        better = f"{share(outcome.gap)} better at most"
    return f"Not proven: something untried could be {better}, on the model."


def lower_bound_table(outcome: Outcome) -> Table:
    """Return what nothing can be better than, and what it is made of."""
    bound = outcome.lower_bound
    rows = [Row((part.name, _amount(outcome, part.amount))) for part in bound.parts]
    rows.append(Row(("lower bound", _amount(outcome, bound.cost))))
    return Table((Column(), Column(outcome.aim.unit, right=True)), tuple(rows))


def _amount(outcome: Outcome, amount: float) -> str:
    if outcome.aim.goal is Goal.MEMORY:
        return share(amount)
    if outcome.aim.goal is Goal.TIME_TO_SAMPLES:
        return duration(amount / 1e6)
    return microseconds(amount)


def _other_settings(outcome: Outcome) -> Table:
    rows = []
    for setting in outcome.other_settings:
        text = "does not fit, or cannot be run"
        if setting.change is not None:
            text = _change(setting.change)
        rows.append(Row((setting.other, text)))
    columns = Column(), Column(outcome.aim.goal.value, right=True)
    return Table(columns, tuple(rows))


def _different(outcome: Outcome) -> Table:
    rows = tuple(
        Row((item.what, _change(item.change), share(item.memory_fraction)))
        for item in outcome.different
    )
    titles = outcome.aim.goal.value, "memory"
    columns = (Column(), *(Column(title, right=True) for title in titles))
    return Table(columns, rows)


def _change(value: float) -> str:
    return "the same" if abs(value) < 0.005 else f"{value * 100:+.0f} %"
