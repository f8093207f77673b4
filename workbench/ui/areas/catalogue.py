"""Which areas there are, and the place where one of them is seen."""

from __future__ import annotations

from textual.app import ComposeResult

from workbench.ui.actions import Scope
from workbench.ui.areas.area import Area
from workbench.ui.handlers import Handlers
from workbench.ui.widgets.plain import Vertical

AREAS: tuple[tuple[str, str], ...] = (
    ("start", "Presets"),
    ("configure", "Configure"),
    ("stages", "Stages"),
    ("run", "Run"),
    ("compare", "Compare"),
    ("report", "Report"),
    ("script", "Script"),
)
"""Name and title, in the order of the number keys."""
EXPERIMENT_AREAS = ("configure", "stages", "script")
"""Those that change or show the experiment, never a script that runs as it is."""


class AreaStack(Vertical):
    """Shows one area; each is loaded and built when it is first shown."""

    def __init__(self, handlers: Handlers) -> None:
        super().__init__(id="main")
        self._handlers = handlers
        self.current = self._build("start")
        self._built = {"start": self.current}

    def _build(self, name: str) -> Area:
        return _area_class(name)(self._handlers, name=name)

    def compose(self) -> ComposeResult:
        """Begin with the first area."""
        yield self.current

    async def show(self, name: str) -> None:
        """Let an area take the place of the present one."""
        if name not in self._built:
            area = self._build(name)
            area.display = False
            self._built[name] = area
            await self.mount(area)
        self.current.display = False
        self.current = self._built[name]
        self.current.display = True


def _area_class(name: str) -> type[Area]:
    """Load an area: most need what the first frame does without."""
    match name:
        case "configure":
            from workbench.ui.areas.configure import ConfigureArea

            return ConfigureArea
        case "stages":
            from workbench.ui.areas.stages import StagesArea

            return StagesArea
        case "run":
            from workbench.ui.areas.run import RunArea

            return RunArea
        case "compare":
            from workbench.ui.areas.compare import CompareArea

            return CompareArea
        case "report":
            from workbench.ui.areas.report import ReportArea

            return ReportArea
        case "script":
            from workbench.ui.areas.script import ScriptArea

            return ScriptArea
        case _:
            from workbench.ui.areas.start import StartArea

            return StartArea


def area_of(scope: Scope) -> str:
    """Return the area in which the keys of a scope work; empty if that is anywhere."""
    part_of = {Scope.TIMELINE: Scope.STAGES, Scope.CHART: Scope.RUN}
    name = part_of.get(scope, scope).name.lower()
    return name if name in dict(AREAS) else ""
