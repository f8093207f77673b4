"""What the stage editor has to say: why it cannot run, what else changed, advice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from textual.content import Content

from ipu_runtime.plan.advice import Advice
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.quantities import change, microseconds
from ipu_runtime.reports.document import BAD, GOOD, MARK, MUTED
from ipu_runtime.reports.plan_words import advice_words, reason_words
from workbench.editing.draft import Draft, check_tables, with_values
from workbench.editing.fixes import change_words
from workbench.editing.stage_editor import Edited
from workbench.views.cells import wrapped
from workbench.views.content import line, lines


def why_notice(
    draft: Draft, values: dict[str, Any], low: bool
) -> Callable[[int], Content]:
    """Return why a draft cannot run, in full, and what one key would set.

    A low window has room for the reason, not for all that was tried against it.
    """
    problem = draft.blocking
    if low and problem and problem.severity is Severity.NO_FIT and problem.hint:
        problem = replace(problem, hint="2 tells what would help")
    reason = f"cannot run yet: {problem}"
    mend = f"{change_words(draft, values)}{_effect(draft, values)}" if values else ""

    def build(width: int) -> Content:
        rows = [line((f" {row}", BAD)) for row in wrapped(reason, width - 2)]
        for number, row in enumerate(wrapped(mend, width - 6)) if mend else ():
            rows.append(line((" f  " if not number else "    ", MARK), row))
        if not mend:
            rows.append(line((" u", MARK), ("  takes the last change back", MUTED)))
        return lines(*rows)

    return build


def _effect(draft: Draft, values: dict[str, Any]) -> str:
    """Return what the mended experiment would be like."""
    # It loads NumPy, which the first frame can do without.
    from workbench.planning.experiment_plan import plan_experiment

    spec, _ = check_tables(with_values(draft.tables, values))
    plan = plan_experiment(spec, with_remedies=False) if spec else None
    if plan is None or not plan.ok:
        return ""
    before = draft.plan.ipu_us_per_batch if draft.plan else 0.0
    difference = change(plan.ipu_us_per_batch, before)
    beside = f", {difference}" if difference not in ("", "=") else ""
    return f" (modelled: {microseconds(plan.ipu_us_per_batch)} per batch{beside})"


def change_notice(edited: Edited) -> Callable[[int], Content]:
    """Return what else a change has changed."""
    text = f"also {edited.also}; u undoes all"

    def build(width: int) -> Content:
        return lines(*(line((f" {row}", MARK)) for row in wrapped(text, width - 2)))

    return build


def advice_line(advice: Advice | None, known: bool) -> Content:
    """Return the move of one cut that helps most."""
    if not known:
        return line((" advice  trying every cut in other places", MUTED))
    if advice is None:
        return line(
            (" advice  no other place of one cut is better; b searches all", MUTED)
        )
    head = line(
        (" advice  ", MUTED),
        (advice_words(advice), GOOD),
    )
    return lines(head, line(("  enter  ", MARK), reason_words(advice)))
