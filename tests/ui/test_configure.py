"""Changing fields."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from tests.ui.conftest import MakeApp
from tests.ui.screen_text import screen_text
from workbench.experiment.overrides import apply_overrides
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment
from workbench.ui.app import WorkbenchApp
from workbench.ui.widgets.field_form import FieldForm


async def open_field(pilot: Pilot[None], app: WorkbenchApp, path: str) -> None:
    """Show the form with the cursor on a field."""
    await pilot.press("2")
    await pilot.pause()
    app.query_one(FieldForm).cursor_key = path
    await pilot.pause()


async def type_value(pilot: Pilot[None], text: str) -> None:
    """Replace the value under the cursor."""
    await pilot.press("enter", "home", "shift+end", *text, "enter")
    await pilot.pause()


async def test_wrong_value_stands_with_its_reason_and_switches_run_off(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_field(pilot, app, "execution.gradient_accumulation")
        await type_value(pilot, "6")
        tables, _ = apply_overrides(
            load_preset("mnist-ipu-pipelined").tables,
            ["execution.gradient_accumulation=6"],
        )
        spec, _ = validate(tables)
        assert spec is not None
        problems = plan_experiment(spec).problems
        draft = app.session.draft
        assert draft.problem_at("execution.gradient_accumulation") in problems
        words = problems[0].problem.split(",")[0]
        assert words in " ".join(screen_text(app).split())
        assert "last valid figures" in screen_text(app)
        await pilot.press("f5")
        await pilot.pause()
        assert not app.runs.started
        assert "cannot run" in screen_text(app)


async def test_suggestion_of_a_message_is_one_key_away(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_field(pilot, app, "execution.gradient_accumulation")
        await type_value(pilot, "6")
        draft = app.session.draft
        problem = draft.problem_at("execution.gradient_accumulation")
        assert problem is not None
        assert "(f sets 8)" in screen_text(app)
        await pilot.press("f")
        await pilot.pause()
        assert draft.value("execution.gradient_accumulation") == problem.suggestion
        assert draft.why_not_run == ""


async def test_right_value_changes_the_plan_at_once(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_field(pilot, app, "data.batch_size")
        before = app.session.draft.plan
        await type_value(pilot, "32")
        after = app.session.draft.plan
        assert before is not None
        assert after is not None
        assert app.session.draft.value("data.batch_size") == 32
        assert after.samples_per_second != before.samples_per_second
        text = screen_text(app)
        assert "•1 changed" in text
        assert "preset: 64" in text


async def test_escape_leaves_a_field_as_it_was(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_field(pilot, app, "data.batch_size")
        await pilot.press("enter", "1", "2", "escape")
        await pilot.pause()
        assert app.session.draft.value("data.batch_size") == 64
        assert app.query_one(FieldForm).has_focus


async def test_typing_tells_whether_the_value_would_be_valid(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_field(pilot, app, "data.batch_size")
        await pilot.press("enter", "home", "shift+end", "x")
        await pilot.pause()
        assert '"x" is not a whole number' in screen_text(app)


@pytest.mark.parametrize(
    ("path", "expected"),
    [("data.shuffle", False), ("pipeline.schedule", "Interleaved")],
)
async def test_space_takes_the_next_choice(
    make_app: MakeApp, path: str, expected: object
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_field(pilot, app, path)
        await pilot.press("space")
        await pilot.pause()
        assert app.session.draft.value(path) == expected


async def test_enter_offers_the_choices_of_a_field(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_field(pilot, app, "train.optimizer")
        await pilot.press("enter")
        await pilot.pause()
        assert "rmsprop" in screen_text(app)
        await pilot.press("end", "enter")
        await pilot.pause()
        assert app.session.draft.value("train.optimizer") == "adam"


async def test_restore_undo_and_redo(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_field(pilot, app, "data.batch_size")
        await type_value(pilot, "32")
        await pilot.press("backspace")
        assert app.session.draft.value("data.batch_size") == 64
        await pilot.press("u")
        assert app.session.draft.value("data.batch_size") == 32
        await pilot.press("u")
        assert app.session.draft.changes() == {}
        await pilot.press("U")
        assert app.session.draft.value("data.batch_size") == 32
        await pilot.press("R")
        assert app.session.draft.changes() == {}


async def test_a_changed_value_is_whole_and_the_preset_s_is_in_the_help(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_field(pilot, app, "pipeline.schedule")
        await pilot.press("space")
        await pilot.pause()
        rows = [row for row in screen_text(app).splitlines() if "schedule " in row]
        assert " Interleaved " in rows[0]
        assert "pipeline.schedule   preset: Grouped" in screen_text(app)


async def test_where_nothing_is_changed_no_hidden_field_is_edited(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2", "o")
        await pilot.pause()
        text = screen_text(app)
        assert "nothing is changed: o shows all fields" in text
        assert "data.batch_size" not in text
        await pilot.press("enter", "left", "space", "backspace")
        await pilot.pause()
        assert app.focused is app.query_one(FieldForm)
        assert not app.session.draft.changes()


async def test_only_changed_fields_and_filter(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_field(pilot, app, "data.batch_size")
        await type_value(pilot, "32")
        await pilot.press("o")
        await pilot.pause()
        form = app.query_one(FieldForm)
        assert [key for key in form.keys if "." in key] == ["data.batch_size"]
        await pilot.press("o", "slash", *"poplar", "enter")
        await pilot.pause()
        fields = [key for key in form.keys if not key.startswith("group:")]
        assert fields
        assert "ipu.convolutions.poplar_options" in fields
        assert form.has_focus


async def test_a_field_that_was_filtered_for_is_under_the_cursor(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("2", "slash", *"epochs", "enter", "enter", "5", "enter")
        await pilot.pause()
        assert app.session.draft.text("train.epochs") == "5"


async def test_changes_of_one_preset_survive_a_look_at_another(
    make_app: MakeApp,
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_field(pilot, app, "data.batch_size")
        await type_value(pilot, "32")
        await pilot.press("1", "down")
        assert app.session.draft.changes() == {}
        await pilot.press("up")
        await pilot.pause()
        assert app.session.draft.value("data.batch_size") == 32
        assert "•›mnist-ipu-pipelined" in screen_text(app)  # noqa: RUF001


async def test_saved_preset_appears_in_the_list(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_field(pilot, app, "data.batch_size")
        await type_value(pilot, "32")
        await pilot.press("ctrl+s")
        await pilot.pause()
        await pilot.press("home", "shift+end", *"my-own", "enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "my-own" in [preset.name for preset in app.session.presets]
    saved = load_preset("my-own")
    assert saved.tables["data"]["batch_size"] == 32


async def test_copied_command_says_what_is_changed(make_app: MakeApp) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await open_field(pilot, app, "data.batch_size")
        await type_value(pilot, "32")
        await pilot.press("c")
        await pilot.pause()
        assert app.clipboard == (
            "ipu-workbench run mnist-ipu-pipelined --set data.batch_size=32"
        )
