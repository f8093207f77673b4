"""Screens that come to rest when sizes follow each other quickly."""

from __future__ import annotations

from textual.app import App
from textual.events import Resize


class SteadySize:
    """Leaves out sizes that the terminal has no more; for screens, named first.

    A screen that lays itself out tells itself its size again. With two sizes in its
    queue, each would bring back the other for ever.
    """

    app: App[object]

    def on_resize(self, event: Resize) -> None:
        """Keep older sizes from what Textual does."""
        if event.size != self.app.size:
            event.stop()
            event.prevent_default()
