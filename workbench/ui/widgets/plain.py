"""Textual's widgets, for which a text is only a text: brackets in it mean nothing.

[Note: text is never markup]
Textual takes strings for markup: in widgets, in the titles of borders, in the palette.
A note of `[/x]` would stop the app, and one with `[@click=...]` would do something when
it is clicked. Names, notes, messages and paths come from files of anybody. So the app's
widgets are made of these classes and no others of Textual's (tests/ui/test_markup.py);
what is to look different from plain text is `Content`, made by `content.pieces.line`.
"""

from __future__ import annotations

from textual import containers, widgets
from textual.content import Content


class PlainText:
    """Mixed into a widget before Textual's class; titles of its border are text too."""

    def render_str(self, text_content: str | Content) -> Content:
        """Return a text as it is."""
        if isinstance(text_content, Content):
            return text_content
        return Content(text_content)


class Static(PlainText, widgets.Static):
    """Shows a text."""

    def __init__(
        self,
        content: str | Content = "",
        *,
        id: str | None = None,  # noqa: A002
        classes: str | None = None,
    ) -> None:
        super().__init__(content, id=id, classes=classes, markup=False)


class Grid(PlainText, containers.Grid):
    """Has its children in rows and columns."""


class Horizontal(PlainText, containers.Horizontal):
    """Has its children beside each other."""


class Vertical(PlainText, containers.Vertical):
    """Has its children below each other."""


class VerticalScroll(PlainText, containers.VerticalScroll):
    """Has its children below each other, more than are seen."""


def literal(text: str) -> str:
    """Return a text for places of Textual's that take markup and nothing else."""
    return text.replace("[", "\\[")
