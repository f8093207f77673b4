"""Text is never markup: not one of a record, preset, script, model or data set."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from textual.content import Content

import workbench.ui
from tests.ui.conftest import MakeApp, Until
from tests.ui.runs.scripted_runs import ScriptedRunner, record_run, training_events
from tests.ui.screen_text import screen_text
from workbench.experiment.preset_store import load_preset
from workbench.experiment.toml_text import to_toml
from workbench.locations import user_presets_directory
from workbench.runs.events import (
    CallBegan,
    Compiled,
    Compiling,
    Progressed,
    RunEnded,
    RunStatus,
)
from workbench.runs.run_record import RunRecord
from workbench.sweeps.sweep_grid import Axis
from workbench.sweeps.sweep_point import PointResult
from workbench.sweeps.sweep_record import SweepDefinition, SweepRecord

ROOT = Path(workbench.ui.__file__).parent
TEXT = "[/x] [@click=app.quit]y[/]"
CLOSING = "[/x]"
ALLOWED = {"Input", "DirectoryTree"}
"""Of Textual's widgets: what they show is typed, or a name that they take for text."""


def _imported(file: Path) -> set[str]:
    return {
        alias.name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(("textual.widgets", "textual.containers"))
        for alias in node.names
    }


def test_widgets_are_made_of_those_that_know_no_markup() -> None:
    files = [file for file in ROOT.rglob("*.py") if file.name != "plain.py"]
    assert len(files) > 40
    assert set().union(*map(_imported, files)) <= ALLOWED
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert "from_markup" not in text, file
        assert ".notify(" not in text, file
        assert "markup=True" not in text, file


@pytest.fixture
def read_as_markup(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what Textual has taken for markup, of the texts from outside."""
    taken: list[str] = []
    original = Content.from_markup.__func__  # type: ignore[attr-defined]

    def from_markup(cls: type[Content], markup: Any, **variables: object) -> Content:
        plain = markup.replace("\\[", "") if isinstance(markup, str) else ""
        if CLOSING in plain or "[@click" in plain:
            taken.append(plain)
        return original(cls, markup, **variables)

    monkeypatch.setattr(Content, "from_markup", classmethod(from_markup))
    return taken


def _save_presets() -> None:
    folder = user_presets_directory()
    folder.mkdir(parents=True, exist_ok=True)
    tables: dict[str, Any] = json.loads(json.dumps(load_preset("mnist-dense").tables))
    about = ("title", "teaches", "group", "source")
    tables["experiment"] |= dict.fromkeys(about, TEXT)
    tables["experiment"]["name"] = "aaa"
    tables["model"]["layers"][1]["name"] = TEXT
    (folder / "aaa.toml").write_text(to_toml(tables), encoding="utf-8")
    tables["data"][TEXT] = TEXT
    tables["train"] |= {"optimizer": TEXT, "loss": TEXT, "epochs": TEXT}
    tables["data"]["dataset"] = f"/{TEXT}.npz"
    (folder / "bbb.toml").write_text(to_toml(tables), encoding="utf-8")
    (folder / "ccc.toml").write_text(f'{TEXT} = "', encoding="utf-8")


def _describe(home: Path, run_id: str, **changes: Any) -> None:
    path = home / "runs" / run_id / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    said = {"name": TEXT, "note": TEXT, "tags": ["one"], "pinned": True}
    path.with_name("notes.json").write_text(json.dumps(said))
    path.with_name("run.log").write_text(f"{TEXT}\n")
    (path.parent / "instances").mkdir(exist_ok=True)
    (path.parent / "instances" / "0.log").write_text(f"{TEXT}\n")


def _experiment_run(home: Path) -> str:
    run_id = record_run("mnist-dense")
    tables = json.loads((home / "runs" / run_id / "run.json").read_text())["spec"]
    tables["model"]["layers"][1]["name"] = TEXT
    tables["train"]["optimizer"] = TEXT
    tables["experiment"] |= {"title": TEXT, "name": TEXT}
    events = home / "runs" / run_id / "metrics.jsonl"
    with events.open("a") as file:
        row = {"event": "run_ended", "status": "failed", "message": TEXT}
        file.write(json.dumps(row) + "\n")
    about = {"status": "failed", "message": TEXT, "preset": TEXT, "group": TEXT}
    _describe(home, run_id, spec=tables, **about)
    return run_id


def _script_run(home: Path) -> str:
    script = {
        "file": f"/{TEXT}/{TEXT}.py",
        "arguments": [TEXT],
        "directory": f"/{TEXT}",
        "commit": TEXT,
    }
    record = RunRecord.create({"script": script}, TEXT)
    record.append(Compiled(TEXT, 1.0, 2.0, TEXT))
    record.append(CallBegan("fit 1", TEXT, "fit", 1, 40, reason=TEXT))
    record.append(Progressed(1, 4, 40, 1.0, 0.5, 15.0, 250.0, call="fit 1"))
    record.append(RunEnded(RunStatus.FAILED, TEXT))
    record.finish(RunStatus.FAILED, TEXT, {"overridden": [TEXT]})
    _describe(home, record.run_id)
    return record.run_id


def _sweep() -> None:
    axis = Axis("data.batch_size", (TEXT, "16"))
    tables = load_preset("mnist-dense").tables
    record = SweepRecord.create(SweepDefinition(TEXT, tables, (axis,), False), "swept")
    values = {"data.batch_size": TEXT}
    record.add([PointResult(0, values, problem=TEXT, run_id=TEXT)])
    record.close()


VISITS: tuple[tuple[str, ...], ...] = (
    ("1",),
    ("1", "tab"),
    ("L",),
    ("L", "n"),
    ("L", "e"),
    ("L", "v"),
    ("L", "D"),
    ("L", "slash", "x"),
    ("2",),
    ("2", "slash", "x"),
    ("3",),
    ("3", "k"),
    ("4",),
    ("4", "l"),
    ("4", "v"),
    ("4", "a"),
    ("4", "k"),
    ("5",),
    ("6",),
    ("7",),
    ("question_mark",),
    ("ctrl+o",),
    ("o",),
    ("w",),
    ("W",),
    ("W", "enter"),
    ("B",),
    ("ctrl+s",),
    ("c",),
    ("ctrl+p",),
    ("ctrl+p", *"ccc"),
    ("ctrl+p", *"aaa"),
    ("f5",),
)
"""Keys that lead to every area and dialog; each begins where nothing is open."""


@pytest.mark.parametrize(
    ("preset", "of_script"), [("aaa", False), ("bbb", True), ("ccc", False)]
)
async def test_every_screen_opens_and_shows_texts_as_they_are(
    preset: str,
    of_script: bool,
    make_app: MakeApp,
    until: Until,
    home: Path,
    read_as_markup: list[str],
    tmp_path: Path,
) -> None:
    _save_presets()
    runs = [_experiment_run(home), _script_run(home)]
    _sweep()
    (tmp_path / "[@click=app.quit]y[].keras").touch()
    runner = ScriptedRunner([Compiling(TEXT), *training_events()], hold_after=8)
    app = make_app(runner, preset=preset)
    seen = {}
    async with app.run_test(size=(160, 60)) as pilot:
        await until(pilot, lambda: len(app.runs.records) == len(runs))
        app.handlers.marked.keys[:] = runs
        for keys in VISITS:
            app.runs.chosen = runs[of_script]
            await pilot.press(*keys)
            await pilot.pause()
            seen[keys] = screen_text(app)
            assert app.return_code is None, keys
            while len(app.screen_stack) > 1:
                app.pop_screen()
                await pilot.pause()
            await pilot.press("escape")
        app.say(TEXT, bad=True)
        await pilot.pause()
        if app.runs.active is not None:
            await pilot.press("q")
            await pilot.pause()
            assert "is running" in screen_text(app)
            app.pop_screen()
        seen[("said",)] = screen_text(app)
        app.handlers.leave()
    assert read_as_markup == []
    everywhere = {keys for keys, text in seen.items() if TEXT in text}
    assert {("1",), ("L",), ("4", "l"), ("5",), ("said",)} <= everywhere
    assert {("L", "n"), ("L", "D"), ("W",), ("W", "enter")} <= everywhere
    assert CLOSING in seen["4",]
    assert "click=app.quit]y" in seen["ctrl+o",]
