"""Keys that arrive faster than the screen answers act in the order of typing."""

from __future__ import annotations

from pathlib import Path

from tests.ui.conftest import MakeApp, Until, send_at_once
from tests.ui.screen_text import screen_text


async def test_field_takes_keys_in_the_order_of_typing(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2", "enter")
        await pilot.pause()
        send_at_once(app, "backspace", *"123456", "left", "backspace", "enter")
        await until(pilot, lambda: app.session.draft.changes())
        assert app.session.draft.text("data.batch_size") == "12346"


async def test_field_can_be_opened_and_typed_in_one_go(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        send_at_once(app, "enter", *"128", "enter", "3")
        await until(pilot, lambda: app.main.area.name == "stages")
        assert app.session.draft.text("data.batch_size") == "128"


async def test_enter_before_the_terminal_is_set_up_is_enter(
    make_app: MakeApp, until: Until
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        send_at_once(app, "slash", *"bert", "ctrl+j", "3")
        await until(pilot, lambda: app.main.area.name == "stages")
        assert app.session.current_preset == "bert-large-pod16"


async def test_save_dialog_writes_the_whole_name(
    make_app: MakeApp, until: Until, home: Path
) -> None:
    app = make_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        send_at_once(app, "ctrl+s", *"quick1", "enter", "2")
        await until(pilot, lambda: app.main.area.name == "configure")
        files = [path.name for path in (home / "presets").iterdir()]
        assert files == ["quick1.toml"]
        assert "saved as quick1" in screen_text(app)
