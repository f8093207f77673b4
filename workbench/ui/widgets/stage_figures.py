"""What the stages come to: bars, advice on the cuts, and the timeline."""

from __future__ import annotations

import asyncio

from textual import on, work
from textual.app import ComposeResult
from textual.message import Message
from textual.worker import get_current_worker

from ipu_runtime.plan.advice import Advice
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.quantities import microseconds, share
from workbench.editing.draft import Draft
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.planning.advising import advise_experiment
from workbench.ui.content.plan_summary import plan_line
from workbench.ui.content.stage_bars import (
    balance_words,
    shown_stages,
    stage_bars,
    stale_words,
)
from workbench.ui.content.stage_notice import advice_line
from workbench.ui.widgets.plain import Static, Vertical
from workbench.ui.widgets.timeline_view import TimelineView
from workbench.views.content import lines

REST_S = 0.3
"""How long no key may come before other cuts are tried."""
TALL = 34
"""Lines of a window that has room for everything."""
_BARS_LOW, _BARS_TALL = 2, 8
_TIMELINE_LOW, _TIMELINE_TALL = 6, 14
_TIMELINE_FRAME = 4
"""Lines besides the IPUs: border, ruler and scrollbar."""


class StageFigures(Vertical):
    """Figures of the draft, or grey ones of the last plan that could run."""

    DEFAULT_CSS = "StageFigures { height: auto; }"

    class Advised(Message):
        """Every cut has been tried in other places."""

        def __init__(self, spec: ExperimentSpec, advice: Advice | None) -> None:
            super().__init__()
            self.spec, self.advice = spec, advice

    _advised: Advised | None = None
    _asked: ExperimentSpec | None = None
    _draft: Draft | None = None
    _stage = 0

    def compose(self) -> ComposeResult:
        """Build bars and timeline."""
        yield Static(id="stage-bars")
        yield Static(id="stage-advice")
        with Vertical(id="timeline-panel", classes="panel"):
            yield TimelineView(id="timeline")
        yield Static(id="stages-plan-line")

    @on(TimelineView.Pointed)
    def _pointed(self) -> None:
        caption = self.query_one(TimelineView).caption
        self.query_one("#timeline-panel").border_subtitle = caption

    def show_draft(self, draft: Draft, stage: int) -> None:
        """Show the figures of a draft, those of a stage among them."""
        self._draft, self._stage = draft, stage
        plan = draft.plan
        if plan is not None and (plan.layers or plan.not_modelled):
            self._show_figures(draft, plan)
        self._show_advice(draft)

    def advice_for(self, draft: Draft) -> Advice | None:
        """Return the advice for the present stages, if there is any."""
        advised = self._advised
        known = advised is not None and advised.spec is draft.spec
        return advised.advice if advised and known else None

    def _show_figures(self, draft: Draft, plan: Plan) -> None:
        self._show_bars(plan, not draft.valid)
        self._show_timeline(plan, not draft.valid)
        summary = self.query_one("#stages-plan-line", Static)
        summary.display = not draft.why_not_run
        summary.update(plan_line(draft))

    def show_stage(self, stage: int) -> None:
        """Let the bars of a stage be seen."""
        plan = self._draft.plan if self._draft is not None else None
        if self._draft is not None and plan is not None and stage != self._stage:
            self._stage = stage
            self._show_bars(plan, not self._draft.valid)

    def _show_bars(self, plan: Plan, stale: bool) -> None:
        tall = self.app.size.height >= TALL
        stages = shown_stages(plan, _BARS_TALL if tall else _BARS_LOW, self._stage)
        rows = stage_bars(plan, self.size.width, stages, stale)
        label = [stale_words(plan)] if stale else []
        balance = [balance_words(plan, stages, stale)] if tall or not stale else []
        bars = lines(*label, *rows, *balance)
        self.query_one("#stage-bars", Static).update(bars)

    def _show_advice(self, draft: Draft) -> None:
        """Show the advice for the present stages, asked for now if they are new."""
        spec, plan = draft.spec, draft.plan
        place = self.query_one("#stage-advice", Static)
        place.display = bool(spec and spec.pipeline.stages and draft.valid)
        if not place.display or spec is None or plan is None:
            return
        known = self._advised is not None and self._advised.spec is spec
        place.update(advice_line(self.advice_for(draft), known))
        if not known and self._asked is not spec:
            self._asked = spec
            self._advise(spec, plan)

    @work(exclusive=True, group="advice", exit_on_error=False)
    async def _advise(self, spec: ExperimentSpec, plan: Plan) -> None:
        """Try the cuts once the keys rest: planning would hold up what they draw."""
        await asyncio.sleep(REST_S)
        worker = get_current_worker()
        cancelled = lambda: worker.is_cancelled  # noqa: E731
        found = await asyncio.to_thread(advise_experiment, spec, plan, cancelled)
        advice = next((item for item in found if item.cuts), None)
        self.post_message(self.Advised(spec, advice))

    @on(Advised)
    def _take_note(self, event: Advised) -> None:
        event.stop()
        self._advised = event
        if self._draft is not None:
            self._show_advice(self._draft)

    def _show_timeline(self, plan: Plan, stale: bool) -> None:
        # It needs NumPy, which the areas before it do without.
        from ipu_runtime.plan.plan_timeline import plan_timeline

        timeline = plan_timeline(plan)
        panel = self.query_one("#timeline-panel")
        panel.display = timeline is not None
        self.query_one(TimelineView).show_timeline(timeline, stale)
        if timeline is None:
            return
        most = _TIMELINE_TALL if self.app.size.height >= TALL else _TIMELINE_LOW
        panel.styles.height = min(len(timeline.ipus) + _TIMELINE_FRAME, most)
        schedule = timeline.schedule
        panel.border_title = (
            f"{'Last plan' if stale else 'Timeline'} {schedule.kind.value}  "
            f"{schedule.micro_batches} micro-batches  "
            f"{len(schedule.slots)} slots  {microseconds(timeline.total_us)}  "
            f"bubble {share(timeline.schedule.bubble_fraction)}"
        )
        self._pointed()
