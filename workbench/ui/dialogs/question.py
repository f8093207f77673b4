"""Questions above the screen: yes or no, a line of text, one of some choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.screen import ModalScreen
from textual.widgets import Input

from ipu_runtime.reports.document import BAD, MARK, MUTED
from workbench.ui.steady_size import SteadySize
from workbench.ui.widgets.plain import Static, Vertical
from workbench.ui.widgets.row_list import Row, RowList
from workbench.views.cells import cell_width, pad
from workbench.views.content import line


class Ask(SteadySize, ModalScreen[str]):
    """Asks which way to go; each answer has a letter, the safe one has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Choose", show=False),
        Binding("escape", "stay", "Stay", show=False),
    ]

    def __init__(self, question: str, answers: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._question, self._answers = question, answers

    def compose(self) -> ComposeResult:
        """Build the box."""
        with Vertical(classes="box"):
            yield Static(self._question)
            yield RowList(id="answers")

    def on_mount(self) -> None:
        """Put the cursor on the safe answer."""
        answers = self.query_one("#answers", RowList)
        answers.styles.height = len(self._answers)
        answers.set_rows(
            [
                Row(line("  ", (f"{letter} ", MARK), words), letter)
                for letter, words in self._answers
            ]
        )
        answers.focus()

    def on_key(self, event: Key) -> None:
        """Give the answer of a letter."""
        if event.key in dict(self._answers):
            event.stop()
            self.dismiss(event.key)

    @on(RowList.Clicked)
    def action_choose(self) -> None:
        """Give the answer under the cursor."""
        self.dismiss(self.query_one("#answers", RowList).cursor_key)

    def action_stay(self) -> None:
        """Give the safe answer."""
        self.dismiss(self._answers[0][0])


class AskText(SteadySize, ModalScreen[str | None]):
    """Asks for a line of text; a wrong answer keeps it open and says why."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", show=False)
    ]

    def __init__(
        self,
        question: str,
        value: str = "",
        hint: str = "",
        may_be_empty: bool = False,
    ) -> None:
        super().__init__()
        self._question, self._value, self._hint = question, value, hint
        self._may_be_empty = may_be_empty

    def compose(self) -> ComposeResult:
        """Build the box."""
        with Vertical(classes="box"):
            yield Static(self._question)
            yield Input(self._value, classes="line-input")
            yield Static(line((self._hint or "enter takes it, esc cancels", MUTED)))

    def on_mount(self) -> None:
        """Type at once."""
        self.query_one(Input).focus()

    def check(self, text: str) -> str:
        """Return why a text cannot be taken; empty if it can."""
        taken = text.strip() or self._may_be_empty
        return "" if taken else "type something, or esc"

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        reason = self.check(event.value)
        if reason:
            self.query(Static).last().update(line((reason, BAD)))
        else:
            self.dismiss(event.value.strip())

    def action_cancel(self) -> None:
        """Leave everything as it was."""
        self.dismiss(None)


class Choose(SteadySize, ModalScreen[str | None]):
    """Asks for one of some choices, and says what each would do."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", show=False),
        Binding("enter", "choose", "Choose", show=False),
    ]

    def __init__(
        self,
        question: str,
        choices: Sequence[str],
        value: str,
        effect: Callable[[str], str],
    ) -> None:
        """Ask; `effect` is called in a thread, once for every choice."""
        super().__init__()
        self._question, self._choices, self._value = question, choices, value
        self._effect = effect
        self._effects: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        """Build the box."""
        with Vertical(classes="box choose-box"):
            yield Static(self._question)
            yield RowList(id="choices")
            yield Static(line(("enter takes it, esc cancels", MUTED)))

    def on_mount(self) -> None:
        """Put the cursor on the present choice."""
        choices = self.query_one("#choices", RowList)
        choices.styles.height = min(12, len(self._choices))
        self._show()
        if self._value in self._choices:
            choices.cursor_key = self._value
        choices.focus()
        self._find_effects()

    def _show(self) -> None:
        widest = max(cell_width(choice) for choice in self._choices)
        self.query_one("#choices", RowList).set_rows(
            [
                Row(
                    line(
                        f"  {pad(choice, widest + 2)}",
                        (self._effects.get(choice, ""), MUTED),
                    ),
                    choice,
                )
                for choice in self._choices
            ]
        )

    @work(thread=True, group="effects", exit_on_error=False)
    def _find_effects(self) -> None:
        for choice in self._choices:
            if not self.is_attached:
                return
            now = choice == self._value
            self._effects[choice] = "now" if now else self._effect(choice)
            self.app.call_from_thread(self._show_again)

    def _show_again(self) -> None:
        if self.is_attached:
            self._show()

    @on(RowList.Clicked)
    def action_choose(self) -> None:
        """Take the choice under the cursor."""
        self.dismiss(self.query_one("#choices", RowList).cursor_key)

    def action_cancel(self) -> None:
        """Leave everything as it was."""
        self.dismiss(None)
