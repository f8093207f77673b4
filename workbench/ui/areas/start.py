"""Start: what a preset is, what its document prints, and what it would do."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content

from ipu_runtime.plan.quantities import four_decimals, microseconds
from ipu_runtime.reports.document import HEADING, MUTED, WARN
from workbench.editing.draft import Draft
from workbench.experiment.printed_figures import figures_in, printed_figures
from workbench.ui.actions import Scope
from workbench.ui.areas.area import Area
from workbench.ui.content.plan_summary import plan_summary
from workbench.ui.widgets.flow_text import FlowText
from workbench.ui.widgets.plain import Horizontal, VerticalScroll
from workbench.views.cells import wrapped
from workbench.views.content import line, lines

_FIGURES = f"{'epoch':<5}{'loss':>7}{'accuracy':>9}{'per batch':>10}{'time':>7}"


class StartArea(Area):
    """Description and figures on the left, the plan on the right."""

    SCOPE: ClassVar[Scope] = Scope.START

    def compose(self) -> ComposeResult:
        """Build the two columns."""
        with Horizontal(classes="columns"):
            with VerticalScroll(id="about-scroll", classes="panel", can_focus=False):
                yield FlowText(id="about")
            with VerticalScroll(
                id="start-plan-scroll", classes="panel", can_focus=False
            ):
                yield FlowText(id="start-plan")

    def on_mount(self) -> None:
        """Name the panels."""
        bound = self.screen.active_bindings.items()
        keys = {active.binding.id: key for key, active in bound}
        if {"model.open", "script.open"} <= keys.keys():
            model, script = keys["model.open"], keys["script.open"]
            subtitle = f"{model} opens a model, {script} a script"
            self.query_one("#about-scroll").border_subtitle = subtitle
        self.query_one(
            "#start-plan-scroll"
        ).border_title = "What this would do (modelled)"

    @property
    def useless(self) -> tuple[str, ...]:
        """Only a run can be marked."""
        return () if self.runs.viewed else ("list.mark",)

    def refresh_area(self) -> None:
        """Describe the current preset."""
        draft = self.draft
        self.query_one("#about-scroll").border_title = draft.preset.name
        ready = self.session.plans_ready
        about = self.query_one("#about", FlowText)
        about.show(lambda width: _about(draft, width, compared=ready))
        if ready:
            plan = self.query_one("#start-plan", FlowText)
            measured = self.measured_on_cpu()
            plan.show(lambda width: plan_summary(draft, width, measured))


def _about(draft: Draft, width: int, *, compared: bool) -> Content:
    """Return what the preset says of itself; `compared` once experiments can be."""
    experiment = draft.tables.get("experiment", {})
    rows: list[Content] = []
    for name, style in (("title", "bold"), ("teaches", ""), ("source", MUTED)):
        text = str(experiment.get(name, ""))
        if text:
            text = f"from {text}" if name == "source" else text
            rows += [line((row, style)) for row in wrapped(text, width)]
            rows.append(line(""))
    changed = draft.changes()
    if changed:
        rows.append(line((f"{len(changed)} changed", HEADING)))
        rows += [
            line(f"{'  ' if number else '• '}{row}")
            for item in draft.overrides()
            for number, row in enumerate(wrapped(item, width - 2)[:2])
        ]
        rows.append(line(""))
    return lines(*rows, *_figure_rows(draft, width, compared))


def _figure_rows(draft: Draft, width: int, compared: bool) -> list[Content]:
    figures = figures_in(draft.tables)
    if not figures:
        return [line(("The document prints no figures.", MUTED))]
    rows = [line(("what the document prints", HEADING)), line((_FIGURES, MUTED))]
    for item in figures:
        loss, accuracy = four_decimals(item.loss), four_decimals(item.accuracy)
        step = "" if item.step_us is None else microseconds(item.step_us)
        seconds = "" if item.seconds is None else f"{item.seconds:g} s"
        rows.append(
            line(f"{item.epoch:<5}{loss:>7}{accuracy:>9}{step:>10}{seconds:>7}")
        )
    path = str(draft.preset.path)
    why_not = printed_figures(draft.tables, path).why_not if compared else ""
    if why_not:
        rows += [line((row, WARN)) for row in wrapped(why_not, width)]
    return rows
