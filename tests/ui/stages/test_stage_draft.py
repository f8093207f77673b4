"""The stage editor shows and changes the draft, whether it can be planned or not."""

from __future__ import annotations

import re

import pytest
from textual.pilot import Pilot

from ipu_runtime.plan.quantities import microseconds
from tests.ui.conftest import MakeApp
from tests.ui.screen_text import screen_text
from tests.ui.stages.test_stages import open_stages, stages
from workbench.ui.app import WorkbenchApp
from workbench.ui.areas.configure import ConfigureArea
from workbench.ui.content.layer_rows import LayerSpan, span_names
from workbench.ui.widgets import stage_figures
from workbench.ui.widgets.layer_table import LayerTable
from workbench.ui.widgets.timeline_view import TimelineView

ACCUMULATION = "execution.gradient_accumulation"


def shown_stages(app: WorkbenchApp) -> list[str]:
    """Return the stage column of the table, as it is read."""
    rows = [row.content.plain for row in app.query_one(LayerTable).rows if row.key]
    return [row.rpartition("▌")[2].strip() for row in rows]


async def settle(pilot: Pilot[None], app: WorkbenchApp) -> None:
    await app.workers.wait_for_complete()
    await pilot.pause()


async def test_every_press_cuts_once_more(make_app: MakeApp) -> None:
    app = make_app(preset="mnist-ipu-faster")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3", "n", "n", "n")
        await settle(pilot, app)
        assert max(stages(app)) == 3
        assert shown_stages(app) == [str(stage) for stage in stages(app)]
        assert app.session.draft.why_not_run == ""
        assert app.session.draft.value("ipu.auto_select_ipus") == 4
        await pilot.press("right")
        await pilot.pause()
        assert "there is one stage" not in screen_text(app)


async def test_every_press_joins_two_stages(make_app: MakeApp) -> None:
    app = make_app(preset="mnist-dense-8-stages")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3", "N", "N", "N", "N")
        await settle(pilot, app)
        assert max(stages(app)) == 3
        assert shown_stages(app) == [str(stage) for stage in stages(app)]
        assert app.session.draft.why_not_run == ""


async def test_four_stages_in_six_presses_and_one_back(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("up", "up", "3", "S", "4", "enter")
        await settle(pilot, app)
        draft = app.session.draft
        assert draft.preset.name == "mnist-ipu-faster"
        assert max(stages(app)) == 3
        assert draft.why_not_run == ""
        assert len(draft.changes()) > 1
        assert "gradient_accumulation 1 to 8" in screen_text(app)
        await pilot.press("u")
        assert draft.changes() == {}


async def test_large_model_from_four_to_eight_stages(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("end", "3", "S", "8", "enter")
        await settle(pilot, app)
        draft = app.session.draft
        assert draft.preset.name == "bert-large-pod16"
        assert max(stages(app)) == 7
        assert draft.why_not_run == ""
        await pilot.press("u")
        assert draft.changes() == {}


@pytest.mark.parametrize("answer", ["0", "8", "x"])
async def test_number_of_stages_that_cannot_be_is_refused(
    make_app: MakeApp, answer: str
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "S", answer, "enter")
        await pilot.pause()
        assert "1 to 7" in screen_text(app)
        assert app.session.draft.changes() == {}


async def test_what_cannot_run_says_why_and_is_mended_in_place(
    make_app: MakeApp,
) -> None:
    app = make_app()
    app.session.draft.set_text(ACCUMULATION, "6")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await settle(pilot, app)
        text = " ".join(screen_text(app).split())
        assert "cannot run yet" in text
        assert app.session.draft.why_not_run in text
        assert "last plan that could run" in text
        assert "f batch_size 64 to 48, gradient_accumulation 6 to 8" in text
        await pilot.press("f")
        await settle(pilot, app)
        assert app.session.draft.value(ACCUMULATION) == 8
        assert "cannot run yet" not in screen_text(app)
        await pilot.press("u")
        assert app.session.draft.value(ACCUMULATION) == 6


async def test_layers_move_while_the_experiment_is_wrong(make_app: MakeApp) -> None:
    app = make_app()
    app.session.draft.set_text("data.batch_size", "many")
    async with app.run_test(size=(120, 40)) as pilot:
        await open_stages(pilot, app, "conv2d_1")
        await pilot.press("right")
        await pilot.pause()
        assert shown_stages(app) == list("0011111")
        await pilot.press("n")
        await pilot.pause()
        assert shown_stages(app)[-1] == "2"


async def test_fix_is_offered_only_where_something_is_proposed(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        await settle(pilot, app)
        assert "effective learning rate 0.08" in screen_text(app)
        assert " f fix" in screen_text(app)
        await pilot.press("f")
        await settle(pilot, app)
        assert app.session.draft.value("train.learning_rate") == 0.00125
        await pilot.press("u")
        app.query_one(ConfigureArea).show_field("execution.accumulation_reduction")
        await pilot.press("f")
        assert list(app.session.draft.changes()) == ["execution.accumulation_reduction"]
        for area in ("2", "3"):
            await pilot.press(area)
            await settle(pilot, app)
            assert " f fix" not in screen_text(app)
        app.session.draft.set_text("data.train_samples", "5")
        app.main.show_experiment()
        await settle(pilot, app)
        assert "cannot run yet" in screen_text(app)
        assert " f fix" not in screen_text(app)
        assert "f takes" not in screen_text(app)
        app.session.draft.undo()
        app.session.draft.set_text(ACCUMULATION, "6")
        app.main.show_experiment()
        for area in ("2", "3"):
            await pilot.press(area)
            await settle(pilot, app)
            assert " f fix" in screen_text(app)


async def test_advice_is_taken_by_enter_and_keeps_its_word(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await settle(pilot, app)
        found = re.search(r"advice .*?, (\d+) % less", screen_text(app))
        assert found is not None
        before = app.session.draft.plan
        await pilot.press("enter")
        await settle(pilot, app)
        after = app.session.draft.plan
        assert before is not None
        assert after is not None
        gain = after.ipu_us_per_batch / before.ipu_us_per_batch - 1
        assert round(gain * 100) == -int(found[1])


async def test_remedies_for_memory_leave_room_for_the_advice(
    make_app: MakeApp,
) -> None:
    app = make_app()
    app.session.draft.set({"data.batch_size": 1024})
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await settle(pilot, app)
        text = " ".join(screen_text(app).split())
        assert "does not fit" in text
        assert "2 tells what would help" in text
        assert ": fits, " in text
        assert " 28 % less enter the cut is " in text
        assert "Timeline Grouped" in text
        await pilot.resize_terminal(120, 40)
        await settle(pilot, app)
        assert "tried: " in screen_text(app)


def test_layers_whose_names_are_cut_read_differently() -> None:
    names = ["batch_normalization_1", "batch_normalization_2", "dense"]
    spans = [LayerSpan(name, name, index, index) for index, name in enumerate(names)]
    assert span_names(spans, 76) == ["batch_no…on_1", "batch_no…on_2", "dense        "]


async def test_bars_are_of_the_stages_at_the_cursor(make_app: MakeApp) -> None:
    app = make_app(preset="mnist-dense-8-stages")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await settle(pilot, app)
        assert re.findall(r"stage (\d)  IPU", screen_text(app)) == ["0", "1"]
        assert "2 of 8 shown" in screen_text(app)
        await pilot.press("down", "down", "down")
        await pilot.pause()
        assert re.findall(r"stage (\d)  IPU", screen_text(app)) == ["3", "4"]
        await pilot.press("end")
        await pilot.pause()
        assert re.findall(r"stage (\d)  IPU", screen_text(app)) == ["6", "7"]


async def test_no_cut_is_tried_while_keys_come(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []
    monkeypatch.setattr(stage_figures, "REST_S", 3600.0)
    monkeypatch.setattr(
        stage_figures, "advise_experiment", lambda *args: tried.append(args)
    )
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "n")
        await pilot.pause()
        assert "advice  trying every cut" in screen_text(app)
        assert tried == []


async def test_block_of_a_large_model_moves_as_a_whole(make_app: MakeApp) -> None:
    app = make_app(preset="bert-large-pod16")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3")
        await settle(pilot, app)
        table = app.query_one(LayerTable)
        assert len(table.keys) < 40
        await pilot.press(*["down"] * 7)
        assert "encoder_6" in table.rows[table.line_of(table.cursor_key)].content.plain
        first = 2 + 5 * 7
        await pilot.press("left")
        await pilot.pause()
        assert stages(app)[first : first + 8] == [0] * 7 + [1]
        await pilot.press("right")
        await pilot.pause()
        assert stages(app)[first - 1 : first + 7] == [0] + [1] * 7
        await pilot.press("space")
        await pilot.pause()
        assert "    attention_norm " in screen_text(app)
        assert "▾ encoder_6" in screen_text(app)


async def test_cells_of_the_timeline_never_lie(make_app: MakeApp) -> None:
    app = make_app(preset="mnist-dense-8-stages")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3")
        await settle(pilot, app)
        view = app.query_one(TimelineView)
        for by_time in (False, True):
            assert view.by_time is by_time
            for _ in range(4):
                labels = re.findall(r"F(\d+)", view.text)
                assert all(labels.count(label) <= 8 for label in set(labels))
                view.action_timeline_zoom_in()
            assert by_time or labels.count("15") == labels.count("1") == 8
            for _ in range(4):
                view.action_timeline_zoom_out()
            view.action_timeline_scale()


async def test_cell_at_the_edge_of_the_window_is_not_another(
    make_app: MakeApp,
) -> None:
    app = make_app(preset="mnist-dense-8-stages")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("3", "tab")
        await settle(pilot, app)
        view = app.query_one(TimelineView)
        whole = [re.findall(r"[FB]\d+", row) for row in view.text.splitlines()[1:]]
        for offset in range(60, 64):
            view.scroll_to(x=offset, animate=False)
            await pilot.pause()
            rows = re.findall(r"IPU\d+ +│.*", screen_text(app))
            seen = [re.findall(r"[FB]\d+", row) for row in rows]
            for part, labels in zip(seen, whole, strict=True):
                assert f" {' '.join(part)} " in f" {' '.join(labels)} "
            assert view.scroll_x == offset


async def test_cell_of_the_timeline_says_how_long_and_for_whom(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "tab")
        await settle(pilot, app)
        plan = app.session.draft.plan
        assert plan is not None
        first, second = (microseconds(stage.forward_us) for stage in plan.stages)
        assert f"F0 of stage 0: {first} from" in screen_text(app)
        await pilot.press("down")
        await pilot.pause()
        begins = microseconds(plan.stages[0].forward_us + plan.copy_us)
        assert f"F0 of stage 1: {second} from {begins}, " in screen_text(app)
        assert f"waited {first} for F0 of IPU0 " in screen_text(app)


async def test_schedules_keep_the_ipus_own_in_a_small_window(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await settle(pilot, app)
        await pilot.press("k")
        await pilot.pause()
        text = screen_text(app)
        assert "on the IPU" in text
        assert text.count("not on the IPU") == 4
        assert "memory" in text
