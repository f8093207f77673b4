"""What an experiment would do on the device, beside what its preset would do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual.content import Content

from ipu_runtime.plan.quantities import change, count, microseconds, plural, share
from ipu_runtime.reports.document import (
    BAD,
    GOOD,
    MUTED,
    WARN,
    Document,
    Note,
    Section,
    muted,
)
from ipu_runtime.reports.memory_sections import memory_section
from ipu_runtime.reports.plan_document import (
    figures_section,
    problems_section,
    step_section,
)
from ipu_runtime.reports.plan_words import device_words
from workbench.editing.draft import Draft
from workbench.views.content import app_style, document_content, line

if TYPE_CHECKING:
    from ipu_runtime.plan.plan import Plan
    from workbench.runs.cpu_figures import Measured


def device_line(draft: Draft, plan: Plan) -> str:
    """Return what the experiment runs on, in a few words."""
    return "CPU" if draft.value("execution.api") == "cpu" else device_words(plan)


def plan_summary(draft: Draft, width: int, measured: Measured | None = None) -> Content:
    """Return the whole panel; figures are muted while a value is wrong."""
    plan, sections = draft.plan, []
    if plan is not None and plan.not_modelled:
        # Loaded with the plan, after the first frame.
        from workbench.views.cpu import cpu_section

        tables, preset = draft.tables, str(draft.preset.path)
        sections = [cpu_section(plan, tables, preset, measured), _samples(draft)]
    elif plan is not None and plan.step is not None:
        sections = [
            Section("", (Note(device_line(draft, plan)),)),
            # What the table is of stands in its own headings.
            replace(figures_section(plan, draft.preset_plan), heading=""),
            _samples(draft),
            step_section(plan),
            memory_section(plan.memory),
        ]
        if not draft.valid:
            stale = Section("", (Note("last valid figures", WARN),))
            sections = [stale, *map(muted, sections)]
    sections.append(problems_section(draft.problems))
    shown = tuple(section for section in sections if section.parts)
    return document_content(Document("", shown), app_style(width))


def plan_line(draft: Draft) -> Content:
    """Return the plan in one line, for windows without room for the panel."""
    plan = draft.plan
    reason = draft.why_not_run
    if reason:
        return line((f" {reason}", BAD))
    if plan is not None and plan.not_modelled:
        return line((" CPU: nothing is modelled; a run measures", MUTED))
    if plan is None or plan.step is None:
        return line("")
    before = draft.preset_plan
    old = before.samples_per_second if before else 0.0
    difference = change(plan.samples_per_second, old)
    return line(
        (" modelled ", MUTED),
        f"{microseconds(plan.ipu_us_per_batch)} per batch",
        f"   {count(plan.samples_per_second)} samples/s",
        (
            f" {difference}" if difference not in ("", "=") else "",
            GOOD if plan.samples_per_second > old else WARN,
        ),
        (f"   memory {share(plan.memory_fraction)}", MUTED),
        (f"   {plural(len(draft.problems), 'warning')}", WARN)
        if draft.problems
        else ("   no problems", GOOD),
    )


def _samples(draft: Draft) -> Section:
    """Return what an epoch makes of the data."""
    if draft.spec is None:
        return Section("", ())
    # Loaded with the plan, after the first frame.
    from workbench.data.sample_counts import sample_words

    words = sample_words(draft.spec)
    return Section("", (Note(words, MUTED),) if words else ())
