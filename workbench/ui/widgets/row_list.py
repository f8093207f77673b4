"""A list of styled lines with a cursor: presets, fields, layers and tables use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style
from textual.visual import Visual

from workbench.ui.widgets.plain import PlainText

_POINTER = Content("›")  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class Row:
    """One line; a row with a key can hold the cursor."""

    content: Content
    key: str = ""


def cursor_bindings(letters: bool = True) -> list[BindingType]:
    """Return the keys that move the cursor; letters only where none means more."""
    return [
        Binding("up,k" if letters else "up", "cursor(-1)", "Up", show=False),
        Binding("down,j" if letters else "down", "cursor(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "end(0)", "First", show=False),
        Binding("end", "end(-1)", "Last", show=False),
    ]


class RowList(PlainText, ScrollView, can_focus=True, inherit_bindings=False):
    """Draws only the lines that are seen, so that long lists cost nothing."""

    DEFAULT_CSS = """
    RowList {
        text-wrap: nowrap;
        text-overflow: ellipsis;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"row-list--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = cursor_bindings()
    cursor_key: reactive[str] = reactive("", init=False)

    class OfRow(Message):
        """Something about one row."""

        def __init__(self, row_list: RowList, key: str) -> None:
            super().__init__()
            self.row_list = row_list
            self.key = key

        @property
        def control(self) -> RowList:
            """The list, for `on(...)`."""
            return self.row_list

    class Highlighted(OfRow):
        """The cursor is on another row."""

    class Clicked(OfRow):
        """The row that has the cursor already was clicked once more."""

    class Resized(Message):
        """Rows may have to be made for another width."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._rows: tuple[Row, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """What is shown."""
        return self._rows

    @property
    def keys(self) -> list[str]:
        """Keys of the rows that can hold the cursor."""
        return [row.key for row in self._rows if row.key]

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Show other rows; the cursor stays on its key if that is still there."""
        old_keys = self.keys
        self._rows = tuple(rows)
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._rows))
        keys = self.keys
        if keys and self.cursor_key not in keys:
            position = (
                old_keys.index(self.cursor_key) if self.cursor_key in old_keys else 0
            )
            self.cursor_key = keys[min(position, len(keys) - 1)]
        self.refresh()

    def line_of(self, key: str) -> int:
        """Return the line of a row, -1 if there is none."""
        return next((i for i, row in enumerate(self._rows) if row.key == key), -1)

    def watch_cursor_key(self, key: str) -> None:
        """Show the row and tell who is interested."""
        self._show_cursor()
        self.refresh()
        self.post_message(self.Highlighted(self, key))

    def _show_cursor(self) -> None:
        line = self.line_of(self.cursor_key)
        if line >= 0 and self.size.height:
            top = 0 if self.keys[:1] == [self.cursor_key] else line
            height = line - top + self._lines_of(self.cursor_key)
            self.scroll_to_region(Region(0, top, 1, height), animate=False, force=True)

    def _lines_of(self, key: str) -> int:
        """Return how many lines belong to a row."""
        return 1

    def on_resize(self) -> None:
        """Lines are as wide as the list."""
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._rows))
        self._show_cursor()
        self.post_message(self.Resized())

    def action_cursor(self, step: int) -> None:
        """Move the cursor by some rows."""
        keys = self.keys
        if not keys:
            return
        position = keys.index(self.cursor_key) if self.cursor_key in keys else 0
        self.cursor_key = keys[min(max(position + step, 0), len(keys) - 1)]

    def action_page(self, step: int) -> None:
        """Move the cursor by a screenful."""
        self.action_cursor(step * max(1, self.size.height - 1))

    def action_end(self, position: int) -> None:
        """Move the cursor to the first or the last row."""
        if self.keys:
            self.cursor_key = self.keys[position]

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse is; a second click opens."""
        line = event.y + round(self.scroll_y)
        if not 0 <= line < len(self._rows) or not (key := self._rows[line].key):
            return
        if key == self.cursor_key:
            self.post_message(self.Clicked(self, key))
        self.cursor_key = key

    @property
    def _cursor_style(self) -> Style:
        name = "row-list--cursor"
        # Textual leaves out this one attribute, which colours of the terminal need.
        reverse = self.get_component_styles(name).text_style.reverse
        return self.get_visual_style(name) + Style(reverse=reverse)

    def render_line(self, y: int) -> Strip:
        """Draw one line of the window."""
        width = self.scrollable_content_region.width
        line = y + round(self.scroll_y)
        if line >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        row = self._rows[line]
        style, content = self.visual_style, row.content
        if row.key and row.key == self.cursor_key:
            style += self._cursor_style
            content = _pointed_at(content)
        strips = Visual.to_strips(
            self, content, width, 1, style, pad=True, apply_selection=False
        )
        return strips[0] if strips else Strip.blank(width, style.rich_style)


def _pointed_at(content: Content) -> Content:
    """Put a sign into the first free cell before the text: colour may not be seen."""
    for column, sign in enumerate(content.plain):
        if sign.isalnum():
            break
        if sign == " ":
            return content[:column] + _POINTER + content[column + 1 :]
    return content
