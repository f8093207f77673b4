"""The command palette, with all that the app offers in its own order."""

from __future__ import annotations

from textual.command import DiscoveryHit, Hits
from textual.system_commands import SystemCommandsProvider


class WorkbenchCommands(SystemCommandsProvider):
    """Textual's search, without its sorting before anything is typed."""

    async def discover(self) -> Hits:
        """Return everything."""
        for title, help_text, callback, _ in self.app.get_system_commands(self.screen):
            yield DiscoveryHit(title, callback, help=help_text)
