"""The command palette: every action, every preset, every theme."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.markup import escape

from workbench.ui.actions import ACTIONS, ActionSpec, Scope, all_keys

if TYPE_CHECKING:
    from workbench.ui.app import WorkbenchApp

_AREA_OF_SCOPE = {
    Scope.START: "start",
    Scope.CONFIGURE: "configure",
    Scope.STAGES: "stages",
    Scope.TIMELINE: "stages",
    Scope.RUN: "run",
    Scope.CHART: "run",
    Scope.COMPARE: "compare",
    Scope.REPORT: "report",
    Scope.SCRIPT: "script",
}


class WorkbenchCommands(Provider):
    """Finds by the words of title and help."""

    @property
    def workbench(self) -> WorkbenchApp:
        """The app, with its own type."""
        return cast("WorkbenchApp", self.app)

    def _commands(self) -> Iterator[tuple[str, str, Callable[[], Any]]]:
        keymap = dict(self.workbench.options.settings.keys)
        for spec in ACTIONS:
            if spec.scope is Scope.SCHEDULES:
                continue
            place = "" if spec.scope is Scope.APP else f"{spec.scope.value}: "
            title = f"{place}{spec.title}"
            help_text = f"{spec.tooltip} ({all_keys(spec, keymap)})"
            yield title, help_text, partial(self._act, spec)
        for preset in self.workbench.presets:
            yield (
                f"Preset {preset.name}",
                escape(preset.title),
                partial(self.workbench.choose_preset, preset.name),
            )
        for theme in sorted(self.workbench.available_themes):
            yield f"Theme {theme}", "Colours", partial(self.workbench.use_theme, theme)

    async def _act(self, spec: ActionSpec) -> None:
        area = _AREA_OF_SCOPE.get(spec.scope)
        if area is not None and area != self.workbench.area_name:
            await self.workbench.show_area(area)
        await self.workbench.action_press_action(spec.id)

    async def search(self, query: str) -> Hits:
        """Return what matches, best first."""
        matcher = self.matcher(query)
        for title, help_text, callback in self._commands():
            score = matcher.match(title)
            if score > 0:
                yield Hit(score, matcher.highlight(title), callback, help=help_text)

    async def discover(self) -> AsyncIterator[DiscoveryHit]:
        """Return everything, before anything is typed."""
        for title, help_text, callback in self._commands():
            yield DiscoveryHit(title, callback, help=help_text)
