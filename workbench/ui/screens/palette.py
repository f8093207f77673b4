"""The command palette, with all that the app offers in its own order."""

from __future__ import annotations

from textual.command import DiscoveryHit, Hit, Hits
from textual.system_commands import SystemCommandsProvider

from workbench.ui.widgets.plain import literal


class WorkbenchCommands(SystemCommandsProvider):
    """Textual's search, without markup, and unsorted before anything is typed."""

    async def discover(self) -> Hits:
        """Return everything."""
        for title, help_text, callback, _ in self.app.get_system_commands(self.screen):
            yield DiscoveryHit(literal(title), callback, help=literal(help_text))

    async def search(self, query: str) -> Hits:
        """Return what has the letters of a query, best first."""
        matcher = self.matcher(query)
        for title, help_text, callback, _ in self.app.get_system_commands(self.screen):
            score = matcher.match(title)
            if score > 0:
                shown = matcher.highlight(literal(title))
                yield Hit(score, shown, callback, title, literal(help_text))
