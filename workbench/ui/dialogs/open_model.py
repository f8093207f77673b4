"""Which model to open: typed, one of `keras.applications`, or a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import DirectoryTree, Input

from ipu_runtime.reports.document import BAD, MUTED
from workbench.models.model_source import (
    FILE_ENDINGS,
    SOURCE_FORMS,
    application_names,
    looks_like_source,
)
from workbench.ui.steady_size import SteadySize
from workbench.ui.widgets.plain import Horizontal, Static, Vertical
from workbench.ui.widgets.row_list import Row, RowList
from workbench.views.content import line

_KEYS = "tab: text, list, files; enter opens; esc cancels"


class ModelFiles(DirectoryTree):
    """Directories, and the files in them that can hold a model."""

    ICON_NODE, ICON_NODE_EXPANDED, ICON_FILE = "▸ ", "▾ ", "  "
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("backspace", "up", "Directory above", show=False)
    ]

    def filter_paths(self, paths: Iterable[Path]) -> Iterable[Path]:
        """Leave out what is hidden and what is no model."""
        endings = (*FILE_ENDINGS, ".py")
        return [
            path
            for path in paths
            if not path.name.startswith(".")
            and (path.name.lower().endswith(endings) or path.is_dir())
        ]

    def action_up(self) -> None:
        """Show the directory above."""
        self.path = Path(self.path).absolute().parent


class OpenModel(SteadySize, ModalScreen[str | None]):
    """Asks for the source of a model."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", show=False),
        Binding("enter", "choose", "Choose", show=False),
    ]

    def compose(self) -> ComposeResult:
        """Build the box."""
        with Vertical(classes="box wide-box"):
            yield Static(line(f"Open a model: {SOURCE_FORMS}"))
            yield Input(
                placeholder="source, or words to filter",
                classes="line-input",
                # What a picked file has put there is to be gone on with.
                select_on_focus=False,
            )
            with Horizontal(id="sources"):
                yield RowList(id="applications")
                yield ModelFiles(os.getcwd(), id="model-files")
            yield Static(line((_KEYS, MUTED)), id="open-hint")

    def on_mount(self) -> None:
        """Type at once."""
        self._filter("")
        self.query_one(Input).focus()

    def _filter(self, words: str) -> None:
        names = [
            name
            for name in application_names()
            if all(word in f"keras:{name}".lower() for word in words.lower().split())
        ]
        rows = [Row(line(f"keras:{name}"), f"keras:{name}") for name in names]
        empty = Row(line(("none of keras.applications", MUTED)))
        self.query_one(RowList).set_rows(rows or [empty])

    @property
    def _listed(self) -> str:
        """The model under the list's cursor, if any is listed."""
        applications = self.query_one(RowList)
        key = applications.cursor_key
        return key if key in applications.keys else ""

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._filter(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        text, listed = event.value.strip(), self._listed
        if looks_like_source(text):
            # The name may be cut short where the list has it in full.
            self.dismiss(listed if text.startswith("keras:") and listed else text)
        elif text and listed:
            self.dismiss(listed)
        else:
            reason = f"{text or 'nothing'} names no model"
            self.query_one("#open-hint", Static).update(line((reason, BAD)))

    @on(RowList.Clicked)
    def action_choose(self) -> None:
        """Take the model under the cursor."""
        if self._listed:
            self.dismiss(self._listed)

    @on(DirectoryTree.FileSelected)
    def _picked(self, event: DirectoryTree.FileSelected) -> None:
        path = os.path.relpath(event.path)
        if not path.endswith(".py"):
            self.dismiss(path)
            return
        # Which of its functions makes the model is for the user to say.
        field = self.query_one(Input)
        field.value = f"{path}:"
        field.focus()
        field.cursor_position = len(field.value)
        hint = "type the name of the function that returns the model"
        self.query_one("#open-hint", Static).update(line((hint, MUTED)))

    def action_cancel(self) -> None:
        """Leave everything as it was."""
        self.dismiss(None)
