"""Apps for tests: own home directory, steady clock, scripted runs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual._compositor import Compositor
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot

from tests.ui.runs.scripted_runs import ScriptedRunner, record_run
from workbench.runs import run_record
from workbench.runs.run_store import StoredRun, open_run
from workbench.scripts.script_command import ScriptCommand
from workbench.services.started_run import Runner
from workbench.settings import load_settings
from workbench.ui.app import WorkbenchApp
from workbench.ui.app_options import AppOptions
from workbench.ui.widgets import stage_figures

_PARSED: dict[Any, Any] = {}
MakeApp = Callable[..., WorkbenchApp]
Until = Callable[[Pilot[None], Callable[[], object]], Awaitable[None]]


def send_at_once(app: WorkbenchApp, *keys: str) -> None:
    """Let keys arrive as from a terminal that has buffered them."""
    for key in keys:
        app.post_message(events.Key(key, key if len(key) == 1 else None))


async def run_to_the_end(pilot: Pilot[None], app: WorkbenchApp) -> None:
    """Start the experiment and wait until its end is on the screen."""
    await pilot.press("f5")
    await app.workers.wait_for_complete()
    app.runs.follow()
    await pilot.pause()


class OpenedApp(WorkbenchApp):
    """The app for tests that begin once its first plan is on the screen.

    Plans come after the first frame, which a pilot that pauses once may not see.
    """

    @asynccontextmanager
    async def run_test(self, **options: Any) -> AsyncIterator[Pilot[None]]:
        """Run the app; the test goes on when it has shown its experiment."""
        async with super().run_test(**options) as pilot:
            while not self.session.plans_ready and self.return_code is None:
                await pilot.pause()
            await pilot.pause()
            yield pilot
            if self.return_code is None:
                self.screen._compositor.render_update(full=True)


class SteadyDatetime(datetime):
    """A clock for records, whose ids and times are on the screen."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> SteadyDatetime:
        """Return the same moment always."""
        return cls(2023, 11, 14, 22, 13, 20, tzinfo=tz)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Keep everything that the app writes in a directory of the test."""
    monkeypatch.setenv("IPU_WORKBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setattr(run_record, "datetime", SteadyDatetime)
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.setattr(stage_figures, "REST_S", 0.0)
    # Test workers name a size of their own, which would overrule a real terminal's.
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("LINES", raising=False)
    time.tzset()
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "home"
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(autouse=True)
def few_frames(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw what a test looks at and its last frame, if in a hurry: all take half."""
    if not request.config.getoption("quick"):
        return
    draw = Compositor.render_update

    def render_update(self: Compositor, full: bool = False, **options: Any) -> Any:
        if full:
            return draw(self, full, **options)
        self._dirty_regions.clear()
        return None

    monkeypatch.setattr(Compositor, "render_update", render_update)


@pytest.fixture(autouse=True)
def rules_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let apps of one process share the rules that are parsed from their style."""
    parse = Stylesheet._parse_rules

    def parse_once(self: Stylesheet, *where: Any, **facts: Any) -> Any:
        key = (where, *facts.items(), *self._variables.items())
        if key not in _PARSED:
            _PARSED[key] = parse(self, *where, **facts)
        return _PARSED[key]

    monkeypatch.setattr(Stylesheet, "_parse_rules", parse_once)


@pytest.fixture
def make_app() -> MakeApp:
    """Return how to build an app with a scripted runner and a clock of its own."""

    def make(
        runner: Runner | None = None,
        preset: str = "",
        theme: str = "",
        ascii_only: bool = False,
        script: ScriptCommand | None = None,
    ) -> WorkbenchApp:
        options = AppOptions(
            theme=theme,
            ascii_only=ascii_only,
            preset=preset,
            runner=runner or ScriptedRunner(),
            settings=load_settings(),
            script=script,
        )
        return OpenedApp(options)

    return make


@pytest.fixture
def until() -> Until:
    """Return how to wait for something that another thread brings about."""

    async def wait(pilot: Pilot[None], condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, "it never happened"
            await pilot.pause(0.05)

    return wait


@pytest.fixture
def two_runs() -> list[StoredRun]:
    """Leave two runs that differ in one field, and return them."""
    first = record_run("mnist-ipu-pipelined", rate=30.0)
    second = record_run("mnist-ipu-pipelined", ["data.batch_size=32"], rate=15.0)
    return [open_run(first), open_run(second)]
