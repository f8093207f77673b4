"""Texts of files are shown as they are: neither markup nor commands for terminals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ui.conftest import MakeApp, Until
from tests.ui.runs.scripted_runs import ScriptedRunner, record_run, training_events
from tests.ui.screen_text import screen_text
from workbench.experiment.preset_store import load_preset
from workbench.experiment.toml_text import to_toml
from workbench.locations import user_presets_directory
from workbench.runs.events import Compiling

MARKUP = "[b]x[/b] [@click=app.quit]y[/] [/] [$nothing"
COMMANDS = "\x1b[31mred\x1b]0;t\x07\x9b2J"


def _save(name: str, title: str, layer: str) -> None:
    tables = json.loads(json.dumps(load_preset("mnist-dense").tables))
    tables["experiment"] |= {"title": title, "teaches": title, "group": title}
    tables["experiment"]["name"] = name
    tables["model"]["layers"][1]["name"] = layer
    folder = user_presets_directory()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(to_toml(tables), encoding="utf-8")


@pytest.mark.parametrize("text", [MARKUP, COMMANDS])
async def test_titles_layers_and_messages_are_only_text(
    text: str, make_app: MakeApp, until: Until, home: Path
) -> None:
    _save("aaa", text, f"l{text}")
    run_id = record_run("mnist-dense")
    path = home / "runs" / run_id / "run.json"
    description = json.loads(path.read_text())
    description |= {"status": "failed", "message": text, "preset": text}
    path.write_text(json.dumps(description))
    events = [Compiling(text), *training_events()]
    app = make_app(ScriptedRunner(events), preset="aaa")
    seen = []
    async with app.run_test(size=(150, 50)) as pilot:
        await until(pilot, lambda: app.runs.records)
        for key in ("1", "2", "3", "4", "5", "6", "7"):
            await pilot.press(key)
            await pilot.pause()
            seen.append(screen_text(app))
        app.say(text, bad=True)
        app.runs.chosen = run_id
        await pilot.press("4")
        await pilot.pause()
        seen.append(screen_text(app))
        await pilot.press("ctrl+p", *"aaa")
        await until(pilot, lambda: "Preset aaa" in screen_text(app))
        seen.append(screen_text(app))
    for screen in seen:
        assert not set(screen) & {"\x1b", "\x07", "\x9b"}
    if text == MARKUP:
        for screen in (seen[0], *seen[-2:]):
            assert "[b]x[/b] [@click=app.quit]y[/] [/]" in screen
    else:
        assert "[31mred" in seen[0]
