"""Configure: the form, help for the field under the cursor, and what it would do."""

from __future__ import annotations

from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from ipu_runtime.plan.config.config_effects import effect_on_plan
from ipu_runtime.plan.config.field import Affects, Field, Kind
from ipu_runtime.plan.problem import Problem
from ipu_runtime.reports.document import BAD, GOOD, MARK, MUTED, WARN
from workbench.editing.draft import Draft
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.field_values import describe_valid, value_text
from workbench.ui.actions import Scope, bindings_for
from workbench.ui.areas.area import Area
from workbench.ui.content.plan_summary import plan_line, plan_summary
from workbench.ui.dialogs.question import Choose
from workbench.ui.handlers import Handlers
from workbench.ui.widgets.field_editor import FieldEditor
from workbench.ui.widgets.field_form import FieldForm
from workbench.ui.widgets.filter_line import FilterLine
from workbench.ui.widgets.flow_text import FlowText
from workbench.ui.widgets.plain import Horizontal, Static, Vertical, VerticalScroll
from workbench.ui.widgets.row_list import RowList
from workbench.views.cells import wrapped
from workbench.views.content import line, lines

_CHOICES_BY_SPACE = (Kind.BOOL, Kind.CHOICE)


class ConfigureArea(Area):
    """Form on the left, the plan beside it."""

    SCOPE: ClassVar[Scope] = Scope.CONFIGURE
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_for(Scope.CONFIGURE),
        Binding("escape", "clear_filter", "Clear the filter", show=False),
    ]

    def __init__(self, handlers: Handlers, *, name: str) -> None:
        super().__init__(handlers, name=name)
        self._filter_line = FilterLine(
            placeholder="filter fields, esc clears", id="field-filter"
        )
        self._form = FieldForm(id="form")
        self._editor = FieldEditor(id="editor")
        self._help_text = FlowText(id="field-help")
        self._form_panel = Vertical(
            self._filter_line,
            self._form,
            self._editor,
            self._help_text,
            id="form-column",
            classes="panel",
        )
        self._plan = FlowText(id="plan")
        self._plan_panel = VerticalScroll(
            self._plan, id="plan-scroll", classes="panel", can_focus=False
        )
        self._plan_panel.border_title = "What this would do (modelled)"
        self._plan_line = Static(id="plan-line")

    def compose(self) -> ComposeResult:
        """Build form, help and plan."""
        yield Horizontal(self._form_panel, self._plan_panel, classes="columns")
        yield self._plan_line

    def on_mount(self) -> None:
        """Begin with the field that is changed most."""
        self._form.cursor_key = "data.batch_size"

    @on(RowList.Resized)
    def _resized(self) -> None:
        self._form.show_draft(self.draft)

    def focus_target(self) -> Widget:
        """The form gets the focus."""
        return self._form

    @property
    def has_fix(self) -> bool:
        """Whether a message proposes a value."""
        return self._proposal() is not None

    def refresh_area(self) -> None:
        """Show values, reasons and the plan."""
        draft = self.draft
        form = self._form
        if self.session.pointed_at:
            form.cursor_key, self.session.pointed_at = self.session.pointed_at, ""
        form.show_draft(draft)
        panel = self._form_panel
        switch = "only changed (o)" if form.only_changed else "all fields (o)"
        panel.border_title = "Fields"
        panel.border_subtitle = switch
        self._show_help()
        measured = self.measured_on_cpu()
        self._plan.show(lambda width: plan_summary(draft, width, measured))
        self._plan_line.update(plan_line(draft))

    def show_field(self, path: str) -> None:
        """Put the cursor on a field, whatever hides it."""
        form = self._form
        self.action_clear_filter()
        form.reveal(path)
        self.refresh_area()
        form.cursor_key = path

    def _show_help(self) -> None:
        form = self._form
        draft, path = self.draft, form.path
        panel = self._help_text
        panel.show(lambda width: _help(draft, path, width))

    @on(RowList.Highlighted, "#form")
    def _moved(self, event: RowList.Highlighted) -> None:
        event.stop()
        self._show_help()

    @on(RowList.Clicked, "#form")
    def action_field_edit(self) -> None:
        """Type a value, pick one, or fold a group."""
        form = self._form
        if form.toggle_fold():
            form.show_draft(self.draft)
        elif FIELD_OF_PATH[form.path].kind is Kind.BOOL:
            self.action_field_next_choice()
        elif FIELD_OF_PATH[form.path].kind is Kind.CHOICE:
            self._pick(form.path)
        else:
            y = form.line_of(form.path) - round(form.scroll_y)
            top = 1 if self._filter_line.display else 0
            width = max(8, form.size.width - form.value_column - 2)
            self._editor.edit(
                form.path, self.draft.text(form.path), form.value_column, y + top, width
            )

    @work
    async def _pick(self, path: str) -> None:
        # It loads the planner's parts, which most visits do without.
        from workbench.editing.consequences import consequence

        draft = self.draft
        tables, plan = draft.tables, draft.plan
        screen = Choose(
            path,
            FIELD_OF_PATH[path].choices,
            draft.text(path),
            lambda text: consequence(tables, plan, path, text),
        )
        choice = await self.app.push_screen_wait(screen)
        if choice is not None:
            self._set(path, choice)

    @on(FieldEditor.Changed, "#editor")
    def _typed(self, event: FieldEditor.Changed) -> None:
        event.stop()
        editor = self._editor
        if not editor.display:
            return
        problem = self.draft.trial(editor.path, event.value)
        field = FIELD_OF_PATH[editor.path]
        panel = self._help_text
        panel.show(lambda width: _typed_help(field, problem, width))

    @on(FieldEditor.Done)
    def _edited(self, event: FieldEditor.Done) -> None:
        event.stop()
        self.screen.set_focus(self._form)
        if event.text is None:
            self._show_help()
        else:
            self._set(event.path, event.text)

    def _set(self, path: str, text: str) -> None:
        before = self.draft.text(path)
        self.draft.set_text(path, text)
        problem = self.draft.problem_at(path)
        if problem is not None:
            self.say(str(problem), bad=True)
        elif self.draft.text(path) != before:
            self.say(f"{path} is {self.draft.text(path) or 'empty'} now, u undoes it")
        self._show_help()

    def action_field_next_choice(self) -> None:
        """Flip a switch or take the next choice."""
        path = self._form.path
        if path and FIELD_OF_PATH[path].kind in _CHOICES_BY_SPACE:
            self.draft.next_choice(path)
            self.say(f"{path} is {self.draft.text(path)} now, u undoes it")
        else:
            self.action_field_edit()

    def _proposal(self) -> Problem | None:
        """Return the message under the cursor, or the first, that proposes a value."""
        path = self._form.path
        problem = self.draft.problem_at(path) if path else None
        if problem is None or problem.suggestion is None:
            proposals = [p for p in self.draft.problems if p.suggestion is not None]
            problem = next((p for p in proposals if p.where in FIELD_OF_PATH), None)
        return problem

    def action_field_suggestion(self) -> None:
        """Set what the message under the cursor, or the first message, proposes."""
        problem = self._proposal()
        if problem is None:
            self.say("no message proposes a value")
            return
        self.draft.set({problem.where: problem.suggestion})
        self.say(f"{problem.where} is {value_text(problem.suggestion)} now")

    def action_field_restore(self) -> None:
        """Give the field the preset's value again."""
        path = self._form.path
        if path in self.draft.changes():
            self.draft.restore([path])
            self.say(f"{path} is as in the preset, u undoes it")
        else:
            self.say("the field is as in the preset")

    def action_field_restore_all(self) -> None:
        """Give all fields the preset's values again."""
        paths = self.draft.changes()
        self.draft.restore(paths)
        self.say(f"{len(paths)} fields are as in the preset again, u undoes it")

    def action_field_only_changed(self) -> None:
        """Hide or show the fields that are as in the preset."""
        form = self._form
        form.only_changed = not form.only_changed
        self.refresh_area()

    def action_field_fold(self) -> None:
        """Hide the fields of the group."""
        self._fold(True)

    def action_field_unfold(self) -> None:
        """Show the fields of the group."""
        self._fold(False)

    def _fold(self, folded: bool) -> None:
        form = self._form
        form.fold(folded)
        form.show_draft(self.draft)

    def action_field_filter(self) -> None:
        """Type words that fields have to contain."""
        self._filter_line.open_filter()

    def action_clear_filter(self) -> None:
        """Show all fields again."""
        self._filter_line.clear_filter()

    @on(FilterLine.Changed, "#field-filter")
    def _filter(self, event: FilterLine.Changed) -> None:
        event.stop()
        form = self._form
        form.words = event.value
        form.show_draft(self.draft)
        if form.words:
            form.leave_heading()

    @on(FilterLine.Closed)
    def _leave_filter(self, event: FilterLine.Closed) -> None:
        event.stop()
        self._form.focus()


def _typed_help(field: Field, problem: Problem | None, width: int) -> Content:
    rows = (
        [line((row, BAD)) for row in wrapped(str(problem), width)]
        if problem
        else [line(("valid", GOOD), (f"   {describe_valid(field)}", MUTED))]
    )
    return lines(*rows, line(("enter takes it, esc leaves it as it was", MUTED)))


def _help(draft: Draft, path: str, width: int) -> Content:
    if not path:
        return line(("enter folds and unfolds the group", MUTED))
    field: Field = FIELD_OF_PATH[path]
    affects = [item.value for item in field.affects if item is not Affects.NOTHING]
    changed = path in draft.changes()
    facts = [f"preset: {draft.preset_text(path) or '-'}"] if changed else []
    head, valid = "   ".join([path, *facts]), describe_valid(field)
    fits = len(head) + len(valid) + 3 <= width
    below = [] if fits else wrapped(valid, width)
    rows = [line((path, MARK), (head[len(path) :], MUTED))]
    if fits:
        rows = [line(rows[0], (f"   {valid}", MUTED))]
    text = field.help
    if affects:
        text += f" Affects {', '.join(affects)}."
    if path.startswith("ipu."):
        text = f"{text} {effect_on_plan(field)}".rstrip()
    rows += [line(row) for row in wrapped(text, width)]
    if field.deprecated:
        rows += [line((row, WARN)) for row in wrapped(field.deprecated, width)]
    return lines(*rows, *(line((row, MUTED)) for row in below))
