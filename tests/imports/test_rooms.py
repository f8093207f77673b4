"""Rooms stay small, and the root of the runtime is Graphcore's own list of names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ipu_runtime.installing.public_names import root_names

ROOT = Path(__file__).parents[2]
_OURS = ("bench", "docs", "examples", "ipu_runtime", "presets", "tests", "workbench")
_MOST = 25


def test_no_room_holds_more_files_than_can_be_looked_over() -> None:
    files = [file for folder in _OURS for file in (ROOT / folder).rglob("*.py")]
    rooms = Counter(file.parent.relative_to(ROOT).as_posix() for file in files)
    assert {room: n for room, n in rooms.items() if n > _MOST} == {}


def test_the_root_of_the_runtime_has_only_public_module_names() -> None:
    modules = {file.stem for file in (ROOT / "ipu_runtime").glob("*.py")}
    assert modules - root_names() - {"__init__", "__main__"} == set()
