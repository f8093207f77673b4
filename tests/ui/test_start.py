"""Presets and runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.ui.conftest import MakeApp, Until
from tests.ui.runs.scripted_runs import record_run
from tests.ui.screen_text import screen_text
from workbench.experiment.preset_store import list_presets
from workbench.runs.events import RunStatus
from workbench.ui.dialogs.open_model import OpenModel
from workbench.ui.sidebar import Sidebar
from workbench.ui.widgets.flow_text import FlowText


async def test_every_preset_stands_in_the_list_below_its_group(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert app.query_one(Sidebar).presets.keys == [p.name for p in list_presets()]
        text = screen_text(app)
    assert "MNIST, Keras" in text
    assert text.index("MNIST, Keras") < text.index("mnist-dense")


async def test_default_preset_shows_its_description_and_plan(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        text = screen_text(app)
    assert "One model over two IPUs" in text
    assert "Where a step's time goes" in text
    assert "drops 96 of 60,000" in text


async def test_a_long_change_has_one_bullet(make_app: MakeApp) -> None:
    app = make_app(preset="mnist-dense-8-stages")
    app.session.draft.set({"pipeline.stages": [0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7]})
    async with app.run_test(size=(120, 40)):
        text = screen_text(app)
    assert "• pipeline.stages=[0," in text
    assert text.count("• ") == 1


async def test_printed_figures_of_the_document_are_shown(make_app: MakeApp) -> None:
    app = make_app(preset="mnist-cpu")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "0.9289" in screen_text(app)


async def test_a_changed_experiment_is_not_the_documents(make_app: MakeApp) -> None:
    app = make_app(preset="mnist-cpu")
    app.session.draft.set({"train.learning_rate": 0.1})
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        about = app.query_one("#about", FlowText).render().plain
        assert "not the document's run" in about.replace("\n", " ")
        assert "train.learning_rate" in about


async def test_arrow_picks_another_preset(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("down")
        assert app.session.current_preset == "mnist-dense"
        await pilot.press("enter")
        await pilot.pause()
        assert app.main.area.name == "configure"


async def test_filter_narrows_both_lists_and_escape_clears_it(
    make_app: MakeApp,
) -> None:
    record_run("mnist-ipu-pipelined")
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("slash", *"estimator")
        sidebar = app.query_one(Sidebar)
        assert sidebar.presets.keys
        assert all("estimator" in key for key in sidebar.presets.keys)
        await pilot.press("escape")
        assert "mnist-cpu" in sidebar.presets.keys
        await pilot.press("slash", *"estimator", "enter")
        assert "mnist-cpu" not in sidebar.presets.keys
        await pilot.press("escape")
        assert "mnist-cpu" in sidebar.presets.keys


async def test_recorded_runs_are_listed_with_status_in_words(
    make_app: MakeApp, until: Until
) -> None:
    record_run("mnist-ipu-pipelined", status=RunStatus.STOPPED)
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.runs.records)
        await pilot.pause()
        text = screen_text(app)
    assert "stopped" in text
    assert "■" in text


async def test_a_model_is_opened_by_a_few_letters(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "ctrl+o opens a model, o a script" in screen_text(app)
        answers: list[str | None] = []
        app.push_screen(OpenModel(), answers.append)
        await pilot.pause()
        await pilot.press(*"net mobile")
        assert "NASNetMobile" in screen_text(app)
        await pilot.press("enter")
        assert answers == ["keras:MobileNet"]


async def test_a_picked_file_waits_for_the_function_in_it(
    make_app: MakeApp, until: Until, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("folder/old.h5", "net.py", "notes.txt"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "folder")
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        answers: list[str | None] = []
        app.push_screen(OpenModel(), answers.append)
        await pilot.pause()
        await pilot.press("tab", "tab", "backspace")
        await until(pilot, lambda: "net.py" in screen_text(app))
        assert "notes.txt" not in screen_text(app)
        await pilot.press("end", "enter", *"build", "enter")
        assert answers == ["../net.py:build"]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_what_the_document_prints_is_not_cut(
    make_app: MakeApp, size: tuple[int, int]
) -> None:
    app = make_app(preset="mnist-ipu-replicated")
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        about = app.query_one("#about-scroll")
        about.scroll_end(animate=False)
        await pilot.pause()
        text = screen_text(app)
        assert re.search(r"epoch +loss +accuracy +per batch +time ", text)
        assert re.search(r"1 +1\.1886 +0\.6213 +47\.0 ms +44 s ", text)
