"""Stages: where the model is cut, what each stage costs, and the timeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widget import Widget

from workbench.editing.fixes import fixing_values
from workbench.editing.stage_editor import Edited, StageEditor
from workbench.editing.stage_moves import (
    Move,
    add_stage,
    cut_evenly,
    move_block,
    move_cut,
    remove_stage,
)
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.areas.area import Area
from workbench.ui.content.layer_rows import ShownLayers
from workbench.ui.content.stage_bars import replica_words
from workbench.ui.content.stage_notice import change_notice, why_notice
from workbench.ui.dialogs.question import AskText
from workbench.ui.handlers import Handlers
from workbench.ui.widgets.flow_text import FlowText
from workbench.ui.widgets.layer_table import LayerTable
from workbench.ui.widgets.plain import Static, Vertical
from workbench.ui.widgets.stage_figures import TALL, StageFigures
from workbench.ui.widgets.timeline_view import TimelineView

_RECOMPUTATION = ("off", "Auto", "RecomputeThenBackpropagate",
                  "RecomputeAndBackpropagateInterleaved")  # fmt: skip


class StagesArea(Area):
    """Layers on top, stages below them, the timeline at the bottom."""

    SCOPE: ClassVar[Scope] = Scope.STAGES
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for(Scope.STAGES)]

    _told: tuple[Mapping[str, Any], Edited] | None = None
    """The last change that changed other fields too, and what came of it."""

    _fix: tuple[Mapping[str, Any], dict[str, Any]] | None = None
    """Tables that cannot run, and what would let them."""

    def __init__(self, handlers: Handlers, *, name: str) -> None:
        super().__init__(handlers, name=name)
        self._heading = Static(id="layers-heading")
        self._table = LayerTable(id="layers")
        self._panel = Vertical(
            self._heading, self._table, id="layers-panel", classes="panel"
        )
        self._notice = FlowText(id="stages-notice")
        self._figures = StageFigures()

    def compose(self) -> ComposeResult:
        """Build table, bars and timeline."""
        yield self._panel
        yield self._notice
        yield self._figures

    @on(LayerTable.Resized)
    def _resized(self) -> None:
        self.refresh_area()

    @on(LayerTable.Highlighted, "#layers")
    def _moved(self) -> None:
        table = self._table
        self._heading.update(table.heading())
        self._figures.show_stage(table.stage)

    def focus_target(self) -> Widget:
        """The layers get the focus."""
        return self._table

    @property
    def footer_scopes(self) -> tuple[Scope, ...]:
        """The timeline has keys of its own."""
        if self.query_one(TimelineView).has_focus:
            return (Scope.TIMELINE,)
        return (Scope.STAGES,)

    @property
    def has_fix(self) -> bool:
        """Whether something is known that would let the draft run."""
        return bool(self._fixing_values())

    def _fixing_values(self) -> dict[str, Any]:
        tables = self.draft.tables
        if self._fix is None or self._fix[0] is not tables:
            self._fix = (tables, fixing_values(self.draft))
        return self._fix[1]

    @property
    def editor(self) -> StageEditor:
        """What changes the stages of the present draft."""
        return StageEditor(self.draft)

    def refresh_area(self) -> None:
        """Show the stages of the draft, with the last figures there are."""
        draft, plan = self.draft, self.draft.plan
        stale = not draft.valid
        layers = draft.layers
        self._show_notice()
        if not layers:
            return
        table = self._table
        locked = draft.value("pipeline.locked")
        figures = self.editor.figures
        table.show_layers(ShownLayers(layers, draft.stages, figures, locked, stale))
        self._moved()
        count = max(draft.stages) + 1
        panel = self._panel
        panel.border_title = (
            f"Layers of {draft.preset.name}"
            + (f", {count} stages (draft)" if stale else "")
            + (", space opens a block" if table.has_blocks else "")
        )
        panel.border_subtitle = (
            replica_words(plan) if plan and plan.step and not stale else ""
        )
        self._figures.show_draft(draft, table.stage)

    def _show_notice(self) -> None:
        """Say why the draft cannot run, or what else the last change has changed."""
        notice = self._notice
        draft, told = self.draft, self._told
        if draft.why_not_run:
            low = self.app.size.height < TALL
            notice.show(why_notice(draft, self._fixing_values(), low))
        elif told is not None and told[0] is draft.tables:
            notice.show(change_notice(told[1]))
        notice.display = bool(draft.why_not_run) or (
            told is not None and told[0] is draft.tables
        )

    def _after(self, edited: Edited) -> None:
        """Tell what a change came to, and show it."""
        if not edited.done:
            self.say(edited.text, bad=True)
            return
        self._told = (self.draft.tables, edited) if edited.also else None
        reason = self.draft.why_not_run
        if reason:
            self.say(f"{edited.text}, but {reason}", bad=True)
        else:
            self.say(f"{edited.text}, u undoes it")

    def _apply(self, move: Move) -> None:
        self._after(self.editor.apply(move))

    def _move_layer(self, step: int) -> None:
        span = self._table.span
        if span is not None:
            stages = self.draft.stages
            self._apply(move_block(stages, span.name, span.first, span.last, step))

    def action_stage_layer_earlier(self) -> None:
        """Move the layer or block one stage to the front."""
        self._move_layer(-1)

    def action_stage_layer_later(self) -> None:
        """Move the layer or block one stage to the back."""
        self._move_layer(1)

    def _move_cut(self, step: int) -> None:
        table = self._table
        if table.span is not None:
            stages, names = self.draft.stages, self.editor.names
            index, places = table.span.first, table.places
            self._apply(move_cut(stages, names, index, step, places))

    def action_stage_cut_up(self) -> None:
        """Move the nearest cut one line up."""
        self._move_cut(-1)

    def action_stage_cut_down(self) -> None:
        """Move the nearest cut one line down."""
        self._move_cut(1)

    def action_stage_more(self) -> None:
        """Cut the longest stage in two."""
        if self.draft.layers:
            self._apply(add_stage(self.draft.stages, self.editor.weights))

    def action_stage_fewer(self) -> None:
        """Join the two neighbours with the least work."""
        if self.draft.layers:
            self._apply(remove_stage(self.draft.stages, self.editor.weights))

    @work
    async def action_stage_count(self) -> None:
        """Ask for a number of stages, and cut the model into as many."""
        if not self.draft.layers:
            return
        stages = self.draft.stages
        answer = await self.app.push_screen_wait(AskStages(len(stages)))
        if answer:
            self._apply(cut_evenly(stages, self.editor.weights, int(answer)))

    def action_stage_mend(self) -> None:
        """Set what would let the draft run."""
        self._after(self.editor.fix(self._fixing_values()))

    def action_stage_advice(self) -> None:
        """Move the cut as the advice says."""
        advice = self._figures.advice_for(self.draft)
        if advice is None:
            self.say("there is no advice to take: b searches all cuts")
            return
        self._apply(Move(advice.cuts, advice.what))

    def action_stage_fold(self) -> None:
        """Fold or unfold the block."""
        if self._table.toggle_fold():
            self.refresh_area()
        else:
            self.say("the layer is in no block")

    def action_stage_lock(self) -> None:
        """Let balancing leave the layer or block where it is, or move it again."""
        span = self._table.span
        if span is None:
            return
        names = self.editor.names[span.first : span.last + 1]
        locked = list(self.draft.value("pipeline.locked"))
        if all(name in locked for name in names):
            locked = [name for name in locked if name not in names]
            self.say(f"{span.name} may be moved by balancing")
        else:
            locked += [name for name in names if name not in locked]
            self.say(f"{span.name} stays in its stage when balancing")
        self.draft.set({"pipeline.locked": locked})

    def action_stage_recompute(self) -> None:
        """Take the next way to recompute activations."""
        allowed = self.draft.value("ipu.allow_recompute")
        now = str(self.draft.value("pipeline.recomputation")) if allowed else "off"
        ways = _RECOMPUTATION
        place = ways.index(now) if now in ways else 0
        choice = ways[(place + 1) % len(ways)]
        if choice == "off":
            self.draft.set({"ipu.allow_recompute": False})
        else:
            self.draft.set(
                {"ipu.allow_recompute": True, "pipeline.recomputation": choice}
            )
        reason = self.draft.why_not_run
        self.say(
            f"recomputation {choice}" + (f", but {reason}" if reason else ""),
            bool(reason),
        )

    @work(exclusive=True, group="balance")
    async def action_stage_balance(self) -> None:
        """Find the fastest cuts for the present number of stages."""
        spec = self.draft.spec
        count = max(self.draft.stages, default=0) + 1
        if spec is None or count < 2:
            self.say("one stage needs no balancing: n cuts the model" if spec else
                     self.draft.why_not_run, bad=True)  # fmt: skip
            return
        self.say("balancing")
        # It loads the search, which most visits do without.
        from workbench.planning.balancing import balance_experiment

        worker = self.run_worker(
            lambda: balance_experiment(spec, count), thread=True, group="balancing"
        )
        result = await worker.wait()
        if not result.feasible:
            fixes = [fix.change for fix in result.fixes if fix.fits]
            hint = f"; try {fixes[0]}" if fixes else ""
            self.say(
                f"nothing fits: {result.problem or result.binding}{hint}", bad=True
            )
            return
        if result.stage_of_layer == self.draft.stages:
            self.say("the cuts are the best already")
            return
        self._apply(Move(result.stage_of_layer, "balanced"))

    @work
    async def action_stage_schedules(self) -> None:
        """Compare all schedules and use one."""
        # Built only when asked for.
        from workbench.ui.screens.schedules import SchedulesScreen

        plan, spec = self.draft.plan, self.draft.spec
        if spec is None or plan is None or not self.draft.valid:
            self.say(self.draft.why_not_run, bad=True)
            return
        if plan.schedule is None:
            self.say("there is no pipeline to schedule: n cuts the model", bad=True)
            return
        kind = await self.app.push_screen_wait(SchedulesScreen(spec, plan))
        if kind:
            self.draft.set({"pipeline.schedule": kind})
            self.say(f"schedule {kind}, u undoes it")

    @on(LayerTable.Clicked, "#layers")
    def _toggle_by_mouse(self) -> None:
        span = self._table.span
        if span is None or span.is_block:
            self.action_stage_fold()
            return
        stages = self.draft.stages
        self._move_layer(1 if stages[span.first] < max(stages) else -1)


class AskStages(AskText):
    """Asks for a number of stages."""

    def __init__(self, most: int) -> None:
        super().__init__(
            "How many stages?", "", f"1 to {most}; enter cuts, esc cancels"
        )
        self._most = most

    def check(self, text: str) -> str:
        """Return why a text is no number of stages."""
        text = text.strip()
        if text.isdecimal() and 1 <= int(text) <= self._most:
            return ""
        return f"{text or 'nothing'} is no number from 1 to {self._most}"
