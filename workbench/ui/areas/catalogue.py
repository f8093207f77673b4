"""Which areas there are, and the place where one of them is seen."""

from __future__ import annotations

from importlib import import_module

from textual.app import ComposeResult

from workbench.ui.actions import Scope
from workbench.ui.areas.area import Area
from workbench.ui.controllers.experiment import ExperimentController
from workbench.ui.controllers.runs import RunController
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

    def __init__(self, experiment: ExperimentController, runs: RunController) -> None:
        super().__init__(id="main")
        self._experiment, self._runs = experiment, runs
        self.current = self._build("start")
        self._built = {"start": self.current}

    def _build(self, name: str) -> Area:
        module = import_module(f"workbench.ui.areas.{name}")
        kind: type[Area] = getattr(module, f"{name.capitalize()}Area")
        return kind(self._experiment, self._runs, name=name)

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


def area_of(scope: Scope) -> str:
    """Return the area in which the keys of a scope work; empty if that is anywhere."""
    part_of = {Scope.TIMELINE: Scope.STAGES, Scope.CHART: Scope.RUN}
    name = part_of.get(scope, scope).name.lower()
    return name if name in dict(AREAS) else ""
