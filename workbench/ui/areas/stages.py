"""Stages: where the model is cut, what each stage costs, and the timeline."""

from __future__ import annotations

from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Static

from ipu_runtime.plan.plan import Plan
from workbench.core.quantities import change, microseconds, share
from workbench.core.stage_moves import (
    Move,
    Stages,
    add_stage,
    move_cut,
    move_layer,
    remove_stage,
)
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.areas.area import Area
from workbench.ui.content.pieces import lines
from workbench.ui.content.plan_summary import plan_line
from workbench.ui.content.stage_bars import balance_words, replica_words, stage_bars
from workbench.ui.widgets.layer_table import LayerTable, heading
from workbench.ui.widgets.timeline_view import LEGEND, TimelineView

_RECOMPUTATION = ("off", "Auto", "RecomputeThenBackpropagate",
                  "RecomputeAndBackpropagateInterleaved")  # fmt: skip
_BARS_LOW, _BARS_TALL = 2, 8
_TIMELINE_LOW, _TIMELINE_TALL = 6, 14
_TIMELINE_FRAME = 4
"""Lines besides the IPUs: border, ruler and scrollbar."""


class StagesArea(Area):
    """Layers on top, stages below them, the timeline at the bottom."""

    SCOPE: ClassVar[Scope] = Scope.STAGES
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for(Scope.STAGES)]

    def compose(self) -> ComposeResult:
        """Build table, bars and timeline."""
        with Vertical(id="layers-panel", classes="panel"):
            yield Static(id="layers-heading")
            yield LayerTable(id="layers")
        yield Static(id="stage-bars")
        with Vertical(id="timeline-panel", classes="panel"):
            yield TimelineView(id="timeline")
        yield Static(id="stages-plan-line")

    @on(LayerTable.Resized)
    def _resized(self) -> None:
        self.refresh_area()

    def focus_target(self) -> Widget:
        """The layers get the focus."""
        return self.query_one(LayerTable)

    @property
    def footer_scopes(self) -> tuple[Scope, ...]:
        """The timeline has keys of its own."""
        if self.query_one(TimelineView).has_focus:
            return (Scope.TIMELINE,)
        return (Scope.STAGES,)

    def refresh_area(self) -> None:
        """Show the stages of the experiment."""
        plan = self.draft.plan
        table = self.query_one(LayerTable)
        if plan is None or not plan.layers:
            self.query_one("#stage-bars", Static).update(plan_line(self.draft))
            return
        valid = self.draft.valid
        width = table.scrollable_content_region.width
        self.query_one("#layers-heading", Static).update(heading(width))
        table.show_plan(plan, self.draft.value("pipeline.locked"), valid)
        panel = self.query_one("#layers-panel")
        panel.border_title = f"Layers of {self.draft.preset.name}"
        panel.border_subtitle = replica_words(plan)
        most = _BARS_TALL if self.app.size.height >= 34 else _BARS_LOW
        rows = stage_bars(plan, self.size.width, most)
        self.query_one("#stage-bars", Static).update(lines(*rows, balance_words(plan)))
        self._show_timeline(plan)
        self.query_one("#stages-plan-line", Static).update(plan_line(self.draft))

    def _show_timeline(self, plan: Plan) -> None:
        # It needs NumPy, which the areas before it do without.
        from ipu_runtime.plan.plan_timeline import plan_timeline

        timeline = plan_timeline(plan)
        panel = self.query_one("#timeline-panel")
        panel.display = timeline is not None
        self.query_one(TimelineView).show_timeline(timeline)
        if timeline is None:
            return
        most = _TIMELINE_TALL if self.app.size.height >= 34 else _TIMELINE_LOW
        panel.styles.height = min(len(timeline.ipus) + _TIMELINE_FRAME, most)
        schedule = timeline.schedule
        panel.border_title = (
            f"Timeline {schedule.kind.value}  {schedule.micro_batches} micro-batches  "
            f"{len(schedule.slots)} slots  {microseconds(timeline.total_us)}  "
            f"bubble {share(timeline.schedule.bubble_fraction)}"
        )
        panel.border_subtitle = LEGEND

    @property
    def _stages(self) -> Stages:
        plan = self.draft.plan
        return tuple(layer.stage for layer in plan.layers) if plan else ()

    @property
    def _names(self) -> list[str]:
        plan = self.draft.plan
        return [layer.name for layer in plan.layers] if plan else []

    def _apply(self, move: Move) -> None:
        if not move.done:
            self.say(move.text, bad=True)
            return
        before = self.draft.plan
        old = before.ipu_us_per_batch if before else 0.0
        stages = move.stages
        values: dict[str, Any] = {
            "pipeline.stages": list(stages) if any(stages) else []
        }
        values |= self._ipus_for(max(stages) + 1)
        self.draft.set(values)
        reason = self.draft.why_not_run
        if reason:
            self.say(f"{move.text}, but {reason}", bad=True)
        else:
            after = self.draft.plan
            difference = change(after.ipu_us_per_batch, old) if after else ""
            self.say(f"{move.text}: {difference or 'no'} time per batch, u undoes it")
        self.changed()

    def _ipus_for(self, count: int) -> dict[str, Any]:
        """Return what the device needs when the number of stages changes."""
        now = max(self._stages, default=0) + 1
        replicas = max(1, self.draft.plan.replicas) if self.draft.plan else 1
        if count == now or not isinstance(
            self.draft.value("ipu.auto_select_ipus"), int
        ):
            return {}
        per_replica = 1 << (count - 1).bit_length()
        return {"ipu.auto_select_ipus": per_replica * replicas,
                "pipeline.device_mapping": []}  # fmt: skip

    def _move_layer(self, step: int) -> None:
        index = self.query_one(LayerTable).index
        self._apply(move_layer(self._stages, self._names, index, step))

    def action_stage_layer_earlier(self) -> None:
        """Move the layer one stage to the front."""
        self._move_layer(-1)

    def action_stage_layer_later(self) -> None:
        """Move the layer one stage to the back."""
        self._move_layer(1)

    def _move_cut(self, step: int) -> None:
        index = self.query_one(LayerTable).index
        self._apply(move_cut(self._stages, self._names, index, step))

    def action_stage_cut_up(self) -> None:
        """Move the nearest cut one layer up."""
        self._move_cut(-1)

    def action_stage_cut_down(self) -> None:
        """Move the nearest cut one layer down."""
        self._move_cut(1)

    def action_stage_more(self) -> None:
        """Cut the longest stage in two."""
        plan = self.draft.plan
        layers = plan.layers if plan else ()
        weights = [layer.forward_us + layer.backward_us for layer in layers]
        self._apply(add_stage(self._stages, weights))

    def action_stage_fewer(self) -> None:
        """Join the last two stages."""
        self._apply(remove_stage(self._stages))

    def action_stage_lock(self) -> None:
        """Let balancing leave the layer where it is, or move it again."""
        name = self.query_one(LayerTable).cursor_key
        locked = list(self.draft.value("pipeline.locked"))
        if name in locked:
            locked.remove(name)
            self.say(f"{name} may be moved by balancing")
        else:
            locked.append(name)
            self.say(f"{name} stays in its stage when balancing")
        self.draft.set({"pipeline.locked": locked})
        self.changed()

    def action_stage_recompute(self) -> None:
        """Take the next way to recompute activations."""
        allowed = self.draft.value("ipu.allow_recompute")
        now = str(self.draft.value("pipeline.recomputation")) if allowed else "off"
        ways = _RECOMPUTATION
        choice = ways[(ways.index(now) + 1) % len(ways)]
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
        self.changed()

    @work(exclusive=True, group="balance")
    async def action_stage_balance(self) -> None:
        """Find the fastest cuts for the present number of stages."""
        spec = self.draft.spec
        count = max(self._stages, default=0) + 1
        if spec is None or count < 2:
            self.say("one stage needs no balancing: n cuts the model" if spec else
                     self.draft.why_not_run, bad=True)  # fmt: skip
            return
        self.say("balancing")
        # It loads the search, which most visits do without.
        from workbench.core.balancing import balance_experiment

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
        if result.stage_of_layer == self._stages:
            self.say("the cuts are the best already")
            return
        self._apply(Move(result.stage_of_layer, "balanced"))

    @work
    async def action_stage_schedules(self) -> None:
        """Compare all schedules and use one."""
        # Built only when asked for.
        from workbench.ui.screens.schedules import SchedulesScreen

        plan, spec = self.draft.plan, self.draft.spec
        if spec is None or plan is None or plan.schedule is None:
            self.say("there is no pipeline to schedule: n cuts the model", bad=True)
            return
        kind = await self.app.push_screen_wait(SchedulesScreen(spec, plan))
        if kind:
            self.draft.set({"pipeline.schedule": kind})
            self.say(f"schedule {kind}, u undoes it")
            self.changed()

    @on(LayerTable.Clicked, "#layers")
    def _toggle_by_mouse(self) -> None:
        table = self.query_one(LayerTable)
        last = max(self._stages, default=0)
        step = 1 if self._stages[table.index] < last else -1
        self._move_layer(step)
