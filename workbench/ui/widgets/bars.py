"""The one-line bars around the areas: header, tabs, status and footer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.content import Content
from textual.style import Style

from ipu_runtime.reports.document import MARK, MUTED
from workbench.ui.actions import ActionSpec, keys_shown
from workbench.ui.widgets.plain import Static
from workbench.views.content import StyledPart, line


def _click(action: str) -> Style:
    return Style.from_meta({"@click": action})


def _cut(content: Content, width: int) -> Content:
    if content.cell_length <= width:
        return content
    return content.truncate(max(0, width), ellipsis=True)


class EdgedBar(Static):
    """A line with something at its left end and something at its right one."""

    DEFAULT_CSS = "EdgedBar { height: 1; text-wrap: nowrap; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        # Keys and areas look like themselves, not like links.
        self.auto_links = False
        self._left, self._right = Content(), Content()

    def show(self, left: Content, right: Content | None = None) -> None:
        """Show other texts; what is on the right is cut before what is on the left."""
        right = right or Content()
        if (left, right) == (self._left, self._right) and left.is_same(self._left):
            return
        self._left, self._right = left, right
        self.refresh()

    def render(self) -> Content:
        """Put the two ends together for the present width."""
        left = _cut(self._left, self.size.width)
        right = _cut(self._right, self.size.width - left.cell_length - 1)
        gap = self.size.width - left.cell_length - right.cell_length
        return Content.assemble(left, " " * gap, right)


class TabBar(EdgedBar):
    """The areas, the present one marked."""

    def show_areas(self, titles: Sequence[tuple[str, str]], active: str | None) -> None:
        """Show the areas: pairs of name and title."""
        parts: list[StyledPart] = []
        for number, (name, title) in enumerate(titles, start=1):
            text = f" {number} {title} "
            content = line((text, "reverse bold" if name == active else MUTED))
            parts.append(content.stylize(_click(f"app.area('{name}')")))
            parts.append(" ")
        self.show(line(*parts))


class FooterBar(EdgedBar):
    """Keys of the area, as many as there is room for; the last one always has it."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._entries: list[Content] = []

    def show_actions(
        self, actions: Sequence[ActionSpec], keymap: Mapping[str, str]
    ) -> None:
        """Show some actions with their keys."""
        self._entries = [
            line((keys_shown(spec, keymap), MARK), f" {spec.footer}   ").stylize(
                _click(f"app.press_action('{spec.id}')")
            )
            for spec in actions
        ]
        self._fit()

    def on_resize(self) -> None:
        """Show as many keys as fit."""
        self._fit()

    def _fit(self) -> None:
        palette = line(("ctrl+p", MARK), " palette ")
        palette = palette.stylize(_click("app.command_palette"))
        right = Content.assemble(*self._entries[-1:], palette)
        left, room = line(" "), self.size.width - right.cell_length
        for entry in self._entries[:-1]:
            if left.cell_length + entry.cell_length <= room:
                left += entry
        self.show(left.rstrip(), right)
