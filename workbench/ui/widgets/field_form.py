"""The form: every field of the experiment as one line, by group."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import takewhile

from textual.content import Content

from ipu_runtime.plan.config.field import Field
from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.quantities import plural
from ipu_runtime.reports.document import BAD, HEADING, MARK, MUTED, WARN
from workbench.editing.draft import Draft
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.field_values import value_text
from workbench.ui.widgets.row_list import Row, RowList
from workbench.views.cells import fit, wrapped
from workbench.views.content import line

_GROUP = "group:"
_TITLES = {
    "data": "Data",
    "train": "Training",
    "execution": "Execution",
    "pipeline": "Pipeline",
    "model": "Model",
    "experiment": "Experiment",
    "ipu": "IPU config",
}
_NARROWEST, _WIDEST = 23, 38
"""Cells for names; nearly all are whole in the wider column."""
_SHORTEST_NOTE = 12
"""Cells in which a note still says something; the help has the preset's value too."""


class FieldForm(RowList):
    """Fields with their values, changes marked, reasons below what is wrong."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.words = ""
        self.only_changed = False
        self._folded = {group for group in form_groups() if group.startswith("ipu.")}
        self._folded.add("experiment")

    @property
    def path(self) -> str:
        """Path of the field under the cursor; empty where there is none."""
        key = self.cursor_key
        return "" if key.startswith(_GROUP) or key not in self.keys else key

    @property
    def value_column(self) -> int:
        """Where values begin."""
        return 2 + _name_width(self.scrollable_content_region.width) + 1

    def show_draft(self, draft: Draft) -> None:
        """Show the fields that filter and switch let through."""
        changed = draft.changes()
        width = self.scrollable_content_region.width
        rows: list[Row] = []
        hidden = [
            path
            for path in FIELD_OF_PATH
            if not self._lets_through(path, changed)
            and (problem := draft.problem_at(path))
            and problem.severity is not Severity.WARNING
        ]
        for group, members in form_groups().items():
            chosen = [path for path in members if self._lets_through(path, changed)]
            narrowed = bool(self.words) or self.only_changed
            if narrowed and not chosen:
                continue
            folded = group in self._folded and not narrowed
            wrong = [path for path in members if draft.problem_at(path)]
            problems = [told for path in wrong if (told := draft.problem_at(path))]
            rows.append(_heading(group, members, changed, problems, folded))
            for path in wrong if folded else chosen:
                rows += list(_field_rows(draft, path, path in changed, width))
        if not rows:
            what = "changed field" if self.only_changed else "field"
            text = f'no {what} contains "{self.words}": esc clears the filter'
            text = text if self.words else "nothing is changed: o shows all fields"
            rows = [Row(line((row, MUTED))) for row in wrapped(text, width)]
        notice = f"hidden, but to mend: {', '.join(hidden)}"
        rows[:0] = [Row(line((r, BAD))) for r in wrapped(notice, width) if hidden]
        self.set_rows(rows)
        if self.path and draft.problem_at(self.path):
            self._show_cursor()

    def _lines_of(self, key: str) -> int:
        """Count what is wrong with a field as its own."""
        below = self.rows[self.line_of(key) + 1 :]
        return 1 + len(list(takewhile(lambda row: not row.key, below)))

    def _lets_through(self, path: str, changed: Collection[str]) -> bool:
        if self.only_changed and path not in changed:
            return False
        text = f"{path} {FIELD_OF_PATH[path].help}".lower()
        return all(word in text for word in self.words.lower().split())

    def reveal(self, path: str) -> None:
        """Let nothing hide a field."""
        self.words, self.only_changed = "", False
        self._folded.discard(_group_of(path))

    def leave_heading(self) -> None:
        """Put the cursor on a field, the first one if it is on a heading."""
        fields = [key for key in self.keys if not key.startswith(_GROUP)]
        if fields and self.cursor_key not in fields:
            self.cursor_key = fields[0]

    def fold(self, folded: bool) -> None:
        """Hide or show the fields of the group under the cursor, if there is one."""
        if not self.keys:
            return
        group = self.cursor_key.removeprefix(_GROUP)
        if self.path:
            group = _group_of(self.path)
        if folded:
            self._folded.add(group)
            self.cursor_key = f"{_GROUP}{group}"
        else:
            self._folded.discard(group)

    def toggle_fold(self) -> bool:
        """Fold or unfold if the cursor is on a heading; tell whether it was."""
        if self.path:
            return False
        self.fold(self.cursor_key.removeprefix(_GROUP) not in self._folded)
        return True


def _group_of(path: str) -> str:
    parts = path.split(".")
    if parts[0] != "ipu" or len(parts) == 2:
        return parts[0]
    return f"ipu.{parts[1]}"


def form_groups() -> dict[str, list[str]]:
    """Return the paths of the fields by group, in the form's order."""
    groups: dict[str, list[str]] = {name: [] for name in _TITLES}
    for path in FIELD_OF_PATH:
        groups.setdefault(_group_of(path), []).append(path)
    return groups


def _heading(
    group: str,
    members: list[str],
    changed: Collection[str],
    problems: list[Problem],
    folded: bool,
) -> Row:
    title = _TITLES.get(group, f"IPU · {group.removeprefix('ipu.')}")
    count = sum(path in changed for path in members)
    warnings = sum(item.severity is Severity.WARNING for item in problems)
    wrong = len(problems) - warnings
    note = plural(len(members), "field") + (f", {count} changed" if count else "")
    return Row(
        line(
            ("▸ " if folded else "▾ ", MUTED),
            (title, HEADING),
            (f"  {note}", MUTED),
            (f"  {wrong} to mend", BAD) if wrong else "",
            (f"  {plural(warnings, 'warning')}", WARN) if warnings else "",
        ),
        f"{_GROUP}{group}",
    )


def _field_rows(draft: Draft, path: str, changed: bool, width: int) -> Iterator[Row]:
    field = FIELD_OF_PATH[path]
    problem = draft.problem_at(path)
    value = draft.text(path)
    style = _style(problem) or (MARK if changed else "")
    note = _note(draft, field, path, changed)
    names = _name_width(width)
    # The value comes first: what is left of the line is for the note.
    text = fit(value or "-", min(len(value or "-"), max(4, width - names - 3)))
    room = width - names - 5 - len(text)
    note = fit(note, min(room, len(note))) if room >= _SHORTEST_NOTE else ""
    yield Row(
        line(
            ("• ", MARK) if changed else "  ",
            fit(_short_name(path), names),
            " ",
            (text, style or ("" if value else MUTED)),
            (f"  {note}", MUTED),
        ),
        path,
    )
    if problem is not None:
        yield from (Row(row) for row in problem_rows(problem, path, width))


def _name_width(width: int) -> int:
    """Return the cells for names, as many as half of the line has."""
    return min(_WIDEST, max(_NARROWEST, width // 2))


def _short_name(path: str) -> str:
    parts = path.split(".")
    return ".".join(parts[2:]) if parts[0] == "ipu" and len(parts) > 2 else parts[-1]


def _style(problem: Problem | None) -> str:
    if problem is None:
        return ""
    return WARN if problem.severity is Severity.WARNING else BAD


def _note(draft: Draft, field: Field, path: str, changed: bool) -> str:
    if changed:
        return f"preset: {draft.preset_text(path) or '-'}"
    return field.unit or ("deprecated" if field.deprecated else "")


def problem_rows(problem: Problem, path: str, width: int) -> list[Content]:
    """Return the reason and the remedy, in the words of the commands."""
    text = str(problem).removeprefix(f"{path}: ")
    if problem.severity is not Severity.ERROR:
        text = f"{problem.severity.value}: {text}"
    if problem.suggestion is not None:
        text += f"  (f sets {value_text(problem.suggestion)})"
    style = _style(problem)
    return [line((f"    {row}", style)) for row in wrapped(text, width - 6)]
