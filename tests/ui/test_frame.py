"""The frame: areas, help, palette, themes, sizes and keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.segment import Segment
from textual.color import Color
from textual.command import CommandPalette
from textual.geometry import Region
from textual.strip import Strip

from tests.ui.conftest import MakeApp, run_to_the_end
from tests.ui.screen_text import screen_text
from workbench.settings import load_settings
from workbench.ui.actions import (
    ACTIONS,
    FIXES,
    FOOTER_KEYS,
    LIVE,
    ActionSpec,
    Scope,
    bindings_for,
    footer_actions,
)
from workbench.ui.app import WorkbenchApp
from workbench.ui.areas.catalogue import AREAS
from workbench.ui.areas.compare import CompareArea
from workbench.ui.areas.configure import ConfigureArea
from workbench.ui.areas.report import ReportArea
from workbench.ui.areas.run import RunArea
from workbench.ui.areas.script import ScriptArea
from workbench.ui.areas.stages import StagesArea
from workbench.ui.launch import run_app
from workbench.ui.screens.best_plan import BestPlanScreen
from workbench.ui.screens.palette import WorkbenchCommands
from workbench.ui.screens.runs import RunsScreen
from workbench.ui.screens.schedules import SchedulesScreen
from workbench.ui.screens.sweep import SweepScreen
from workbench.ui.sidebar import Sidebar
from workbench.ui.themes import DARK, LIGHT
from workbench.ui.widgets.chart import ChartView
from workbench.ui.widgets.timeline_view import TimelineView

OWNERS = {
    Scope.APP: WorkbenchApp,
    Scope.START: Sidebar,
    Scope.CONFIGURE: ConfigureArea,
    Scope.STAGES: StagesArea,
    Scope.TIMELINE: TimelineView,
    Scope.RUN: RunArea,
    Scope.CHART: ChartView,
    Scope.COMPARE: CompareArea,
    Scope.REPORT: ReportArea,
    Scope.SCRIPT: ScriptArea,
    Scope.SCHEDULES: SchedulesScreen,
    Scope.BEST: BestPlanScreen,
    Scope.RUNS: RunsScreen,
    Scope.SWEEP: SweepScreen,
}


@pytest.mark.parametrize(("number", "name"), list(enumerate((n for n, _ in AREAS), 1)))
async def test_digit_shows_an_area(make_app: MakeApp, number: int, name: str) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(str(number))
        await pilot.pause()
        assert app.main.area.name == name
        assert app.main.area.display


def test_action_ids_are_unique() -> None:
    ids = [spec.id for spec in ACTIONS]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("spec", ACTIONS, ids=lambda spec: spec.id)
def test_every_action_is_done_where_its_keys_work(spec: ActionSpec) -> None:
    name = spec.action.partition("(")[0]
    assert callable(getattr(OWNERS[spec.scope], f"action_{name}"))


@pytest.mark.parametrize("scope", list(Scope))
def test_no_key_means_two_things_in_one_place(scope: Scope) -> None:
    keys = [key for binding in bindings_for(scope) for key in binding.key.split(",")]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("scope", list(Scope))
def test_footer_has_at_most_six_keys(scope: Scope) -> None:
    assert 0 < len(footer_actions(scope)) <= FOOTER_KEYS


@pytest.mark.parametrize("size", [(79, 24), (80, 23), (40, 10)])
async def test_small_window_asks_for_a_larger_one(
    make_app: MakeApp, size: tuple[int, int]
) -> None:
    app = make_app()
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert "ipu-workbench needs a window" in screen_text(app)
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "needs a window" not in screen_text(app)
        assert "mnist-ipu-pipelined" in screen_text(app)


async def test_keys_reach_the_area_after_the_window_was_too_small(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2")
        form = app.focused
        await pilot.resize_terminal(79, 24)
        await pilot.pause()
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert app.focused is form


async def test_smallest_window_says_in_every_area_which_key_helps(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        for number, _ in enumerate(AREAS, start=1):
            await pilot.press(str(number))
            await pilot.pause()
            assert "? help" in screen_text(app).splitlines()[-1]


async def test_help_lists_the_keys_of_the_area(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3", "question_mark")
        await pilot.pause()
        text = screen_text(app)
        assert "Compare schedules" in text
        await pilot.press("escape")
        await pilot.pause()
        assert "Compare schedules" not in screen_text(app)


async def test_palette_finds_an_action_and_does_it(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("ctrl+p")
        assert isinstance(app.screen, CommandPalette)
        await pilot.press(*"show stages")
        await app.workers.wait_for_complete()
        await pilot.press("enter")
        await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert app.main.area.name == "stages"


async def test_palette_offers_every_action_of_an_area(make_app: MakeApp) -> None:
    app = make_app()
    areas = {Scope[name.upper()] for name, _ in AREAS} | {Scope.APP}
    async with app.run_test(size=(120, 40)) as pilot:
        await run_to_the_end(pilot, app)
        for size in (48, 24):
            app.session.draft.set({"data.batch_size": size})
        await pilot.press("u", "1")
        provider = WorkbenchCommands(app.screen)
        titles = [hit.text or hit.display async for hit in provider.discover()]
    for spec in ACTIONS:
        if spec.scope in areas and spec.id not in (*LIVE, *FIXES):
            assert any(str(title).endswith(spec.title) for title in titles), spec.id


async def test_theme_changes_and_is_remembered(make_app: MakeApp, home: Path) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        assert app.theme == DARK.name
        await pilot.press("ctrl+t")
        assert app.theme == LIGHT.name
    assert load_settings()["theme"] == LIGHT.name


async def test_the_last_preset_is_there_again(make_app: MakeApp) -> None:
    first = make_app()
    async with first.run_test(size=(80, 24)) as pilot:
        await pilot.press("down")
        chosen = first.session.current_preset
    again = make_app()
    async with again.run_test(size=(80, 24)):
        assert again.main.sidebar.presets.cursor_key == chosen
    assert make_app(preset="mnist-cpu").session.current_preset == "mnist-cpu"


@pytest.mark.parametrize("theme", ["ansi-dark", "ansi-light", "textual-light"])
async def test_other_themes_draw_every_area(make_app: MakeApp, theme: str) -> None:
    app = make_app(theme=theme)
    async with app.run_test(size=(120, 40)) as pilot:
        await run_to_the_end(pilot, app)
        await pilot.press("3", "6", "4")
        await pilot.pause()
        assert app.theme == theme
        assert "finished" in screen_text(app)


async def test_no_color_keeps_signs_and_words(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await run_to_the_end(pilot, app)
        assert app.no_color
        assert "✓ finished" in screen_text(app)


@pytest.mark.parametrize("theme", ["workbench-dark", "ansi-dark", "ansi-light"])
async def test_text_is_seen_without_colours(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch, theme: str
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = make_app(theme=theme)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        strips = app.query_one("#presets").render_lines(Region(0, 0, 20, 4))
        written = [part for strip in strips for part in strip if part.text.strip()]
        styles = [part.style for part in written if part.style is not None]
        assert styles
        for style in styles:
            default = style.color is not None and style.color.is_default
            assert default or style.color != style.bgcolor


async def test_ascii_draws_plain_characters_only(make_app: MakeApp) -> None:
    app = make_app(ascii_only=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await run_to_the_end(pilot, app)
        for area in "1234567":
            await pilot.press(area)
            await pilot.pause()
            assert screen_text(app).isascii()


async def test_a_line_is_made_harmless_once_not_with_every_frame(
    make_app: MakeApp,
) -> None:
    app = make_app(ascii_only=True)
    line = Strip([Segment("a\x1bb")])
    black = Color.parse("black")
    async with app.run_test():
        frames = [
            [line.apply_filter(item, black) for item in app.get_line_filters()]
            for _ in range(2)
        ]
    assert all(first is second for first, second in zip(*frames, strict=True))


async def test_keys_are_remapped_by_id(make_app: MakeApp, home: Path) -> None:
    home.mkdir(parents=True)
    (home / "settings.toml").write_text(
        '[keys]\n"area.stages" = "g"\n', encoding="utf-8"
    )
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("g")
        await pilot.pause()
        assert app.main.area.name == "stages"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("ascii = 3", "settings.toml: ascii"),
        ('theme = "pink"', "settings: theme: there is no theme 'pink'; valid: ansi-"),
    ],
)
async def test_wrong_setting_is_said_and_ignored(
    make_app: MakeApp, home: Path, setting: str, said: str
) -> None:
    home.mkdir(parents=True)
    (home / "settings.toml").write_text(f"{setting}\n", encoding="utf-8")
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert said in screen_text(app)


def test_unknown_theme_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(theme="pink") == 2
    assert "--theme: there is no theme 'pink'; valid: " in capsys.readouterr().err


async def test_broken_preset_of_the_user_says_why(
    make_app: MakeApp, home: Path
) -> None:
    presets = home / "presets"
    presets.mkdir(parents=True)
    (presets / "broken.toml").write_text("[data\n", encoding="utf-8")
    app = make_app(preset="broken")
    async with app.run_test(size=(120, 40)) as pilot:
        for area in "1234567":
            await pilot.press(area)
            await pilot.pause()
        await pilot.press("f5")
        await pilot.pause()
        assert "is not valid TOML" in screen_text(app)
