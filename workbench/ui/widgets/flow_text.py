"""Text that is made anew for every width."""

from __future__ import annotations

from collections.abc import Callable

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from workbench.ui.widgets.plain import PlainText

Builder = Callable[[int], Content]


class FlowText(PlainText, Widget):
    """Asks its builder for the text of the present width."""

    DEFAULT_CSS = """
    FlowText { height: auto; width: 100%; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._builder: Builder = lambda width: Content()
        self._built: tuple[int, Content] | None = None

    def show(self, builder: Builder) -> None:
        """Show what another builder makes; the layout stays if the height does."""
        before = self._built
        self._builder, self._built = builder, None
        width = self.content_size.width
        if before is None or before[0] != width:
            self.refresh(layout=True)
            return
        now = self._content(width)
        if not now.is_same(before[1]):
            self.refresh(layout=_height(now) != _height(before[1]))

    def _content(self, width: int) -> Content:
        if self._built is None or self._built[0] != width:
            self._built = (width, self._builder(width))
        return self._built[1]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the lines that the text takes at a width."""
        return _height(self._content(width))

    def render(self) -> Content:
        """Return the text for the present width."""
        width = self.content_size.width
        return self._content(width) if width else Content()


def _height(content: Content) -> int:
    return content.plain.count("\n") + 1
