"""Small promises: footer, palette, keys, sizes, filters, plain terminals."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from textual.events import Resize
from textual.geometry import Size

from tests.ui.conftest import MakeApp, Until
from tests.ui.runs.scripted_runs import ScriptedRunner
from tests.ui.screen_text import screen_text
from workbench.experiment.overrides import apply_overrides
from workbench.locations import user_presets_directory
from workbench.ui.actions import Scope, action_of, actions_in, all_keys
from workbench.ui.launch import plain_terminal
from workbench.ui.screens.palette import WorkbenchCommands
from workbench.ui.widgets.field_form import FieldForm
from workbench.ui.widgets.layer_table import LayerTable


async def test_the_footer_of_a_live_run_shows_pause_and_stop(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app(ScriptedRunner(hold_after=4))
    async with app.run_test(size=(80, 24)) as pilot:
        assert "p pause" not in screen_text(app)
        await pilot.press("f5")
        run = app.runs.started[0]
        await until(pilot, lambda: run.view.events_seen == 5)
        app.runs.follow()
        await pilot.pause()
        footer = screen_text(app).splitlines()[-1]
        assert "p pause   s stop" in footer
        await pilot.press("5")
        await pilot.pause()
        assert "p pause   s stop" in screen_text(app).splitlines()[-1]
        run.control.stop.set()


async def palette_titles(app: object) -> list[str]:
    provider = WorkbenchCommands(app.screen)  # type: ignore[attr-defined]
    return [str(hit.text or hit.display) async for hit in provider.discover()]


async def test_the_palette_offers_what_can_be_done_now(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app(ScriptedRunner(hold_after=4))
    async with app.run_test(size=(80, 24)) as pilot:
        titles = await palette_titles(app)
        assert not {"Stop the run", "Undo", "Run: Resume"} & set(titles)
        assert "Configure: Take the suggestion" not in titles
        assert "Stages: Balance" in titles
        assert titles[0] == "Start the run"
        await pilot.press("3")
        titles = await palette_titles(app)
        assert titles.index("Stages: Balance") < titles.index("Report: Next IPU")
        await pilot.press("f5")
        run = app.runs.started[0]
        await until(pilot, lambda: run.view.events_seen == 5)
        assert {"Stop the run", "Run: Resume"} <= set(await palette_titles(app))
        app.session.draft.set({"data.batch_size": 48})
        assert "Undo" in await palette_titles(app)
        run.control.stop.set()


async def test_the_palette_leads_to_a_field_whatever_hides_it(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2", "o", "slash", *"epochs", "enter", "ctrl+p")
        await pilot.press(*"num_io_tiles")
        await app.workers.wait_for_complete()
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert app.query_one(FieldForm).cursor_key == "ipu.io_tiles.num_io_tiles"


def test_function_keys_are_in_the_order_of_the_digits() -> None:
    areas = [spec for spec in actions_in(Scope.APP) if spec.id.startswith("area.")]
    keys = [all_keys(spec, {}).split(", ") for spec in areas]
    assert [digit for _, digit in keys] == list("1234567")
    assert [key for key, _ in keys] == ["F2", "F3", "F4", "F6", "F7", "F8", "F9"]
    assert action_of("run.start").keys.startswith("f5")


async def test_a_wider_window_shows_what_was_cut(make_app: MakeApp) -> None:
    app = make_app()
    app.session.draft.set_text("execution.accumulation_reduction", "mean")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "M2000" not in screen_text(app).splitlines()[0]
        await pilot.resize_terminal(200, 50)
        await pilot.pause()
        await pilot.pause()
        text = screen_text(app)
        assert "M2000" in text.splitlines()[0]
        assert "cifar10-ipu-pipeline-estimator" in text
        assert "categorical_crossentropy" in text
        assert "offload_weight_update_variables" in text


async def test_a_wrong_field_that_the_filter_hides_is_told(make_app: MakeApp) -> None:
    app = make_app()
    app.session.draft.set_text("execution.gradient_accumulation", "6")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2", "slash", *"epochs", "enter")
        await pilot.pause()
        rows = [row.content.plain for row in app.query_one(FieldForm).rows]
        assert rows[:2] == ["hidden, but to mend:", "execution.gradient_accumulation"]
        await pilot.press("escape")
        await pilot.pause()
        assert "hidden, but to mend" not in screen_text(app)


async def test_a_wrong_preset_that_the_filter_hides_is_told(make_app: MakeApp) -> None:
    folder = user_presets_directory()
    folder.mkdir(parents=True)
    (folder / "broken.toml").write_text("[experiment\n", encoding="utf-8")
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("slash", *"mnist", "enter")
        await pilot.pause()
        text = screen_text(app)
        assert "hidden, cannot be read" in text
        assert "broken" in text


@pytest.mark.parametrize(
    ("environment", "plain"),
    [
        ({"LANG": "en_GB.UTF-8", "TERM": "xterm"}, False),
        ({"LANG": "en_GB.UTF-8", "TERM": "dumb"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, True),
        ({"LC_ALL": "C", "LANG": "en_GB.UTF-8"}, True),
        # As Python leaves it after LANG=C.
        ({"LC_CTYPE": "C.UTF-8", "LANG": "C"}, True),
        ({"LC_CTYPE": "C.UTF-8"}, False),
        ({}, False),
    ],
)
def test_plain_characters_are_chosen_without_being_asked_for(
    environment: dict[str, str], plain: bool
) -> None:
    assert plain_terminal(environment) is plain


@pytest.mark.parametrize("theme", ["ansi-dark", "ansi-light"])
async def test_borders_are_seen_in_the_terminals_own_colours(
    make_app: MakeApp, theme: str
) -> None:
    app = make_app(theme=theme)
    async with app.run_test(size=(80, 24)):
        colour = app.theme_variables["border-blurred"]
        assert colour not in (
            app.theme_variables["background"],
            app.theme_variables["ansi-background"],
        )
        runs = app.query_one("#runs")
        assert runs.styles.border_top[1] != runs.styles.background


async def test_the_stage_at_the_cursor_is_seen_in_the_terminals_own_colours(
    make_app: MakeApp,
) -> None:
    app = make_app(theme="ansi-dark")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await pilot.pause()
        stage = [part for part in app.query_one(LayerTable).render_line(0)
                 if "▌0" in part.text]  # fmt: skip
        assert stage
        for part in stage:
            assert part.style is not None
            assert part.style.color != part.style.bgcolor
            assert part.style.reverse


@pytest.mark.parametrize(
    ("path", "text", "copied"),
    [
        ("data.batch_size", "many", False),
        ("train.learning_rate", "0.5", True),
        ("experiment.title", "'quoted'", True),
        ("experiment.title", "\"'x'\"", False),
        ("ipu.matmuls.poplar_options", '{a = "b"}', True),
        ("execution.model_dir", "with space", True),
    ],
)
async def test_only_a_line_that_parses_to_the_same_is_copied(
    make_app: MakeApp, path: str, text: str, copied: bool
) -> None:
    app = make_app(preset="mnist-ipu")
    taken: list[str] = []
    app.copy_to_clipboard = taken.append  # type: ignore[method-assign]
    async with app.run_test():
        draft = app.session.draft
        draft.set_text(path, text)
        app.handlers.copy_command()
    assert bool(taken) is copied
    for command in taken:
        change = shlex.split(command)[-1]
        tables, problems = apply_overrides(draft.preset.tables, [change])
        assert not problems
        assert tables == draft.tables


async def test_two_presets_whose_names_are_cut_read_differently(
    make_app: MakeApp, home: Path
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        await pilot.pause()
        rows = [row.content.plain for row in app.main.sidebar.presets.rows]
        assert len(rows) == len(set(rows))
        assert any("…" in row for row in rows)


async def test_the_tile_map_has_more_than_one_shade(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 70)) as pilot:
        await pilot.press("6")
        await app.workers.wait_for_complete()
        await pilot.pause()
        text = screen_text(app).split("tiles of IPU 0")[1]
        assert {"█", "▓", "▒", "░"} <= set(text)
        assert "fullest 83.0 KiB (13 %), emptiest" in " ".join(
            text.replace("│", " ").split()
        )


@pytest.mark.parametrize("keys", [(), ("f1",)], ids=["main", "help"])
async def test_two_sizes_at_once_come_to_rest_at_the_last(
    make_app: MakeApp, keys: tuple[str, ...]
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*keys)
        last = Size(120, 40)
        app.post_message(Resize(last, last))
        await pilot.pause()
        # As in the queue of a screen that was busy while a window was drawn larger.
        for size in (Size(100, 30), last):
            app.screen.post_message(Resize(size, size))
            app.screen.call_later(list)
        seen = set()
        for _ in range(20):
            await pilot.pause()
            seen.add(app.screen.size)
        assert seen == {last}
