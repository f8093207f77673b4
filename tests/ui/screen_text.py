"""The screen as plain lines, drawn as Textual draws it."""

from __future__ import annotations

import os
from pathlib import Path

from textual.app import App
from textual.strip import Strip

SNAPSHOTS = Path(__file__).parent.parent / "snapshots"


def screen_text(app: App[object]) -> str:
    """Return what is on the screen, without colours."""
    update = app.screen._compositor.render_update(
        full=True, screen_stack=app._background_screens
    )
    lines = [Strip.join(strips).text for strips in update.strips]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def check_snapshot(name: str, text: str) -> None:
    """Compare with the stored screen; UPDATE_SNAPSHOTS=1 stores a new one."""
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"no snapshot {name}: make it with UPDATE_SNAPSHOTS=1"
    assert text == path.read_text(encoding="utf-8")
