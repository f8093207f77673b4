"""The screen as plain lines, read from Textual's own screenshot."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path

from textual.app import App

SNAPSHOTS = Path(__file__).parent.parent / "snapshots"
_CELL = 12.2
_TEXT = re.compile(
    r'<text class="[^"]*" x="([\d.]+)" y="[\d.]+" textLength="[\d.]+" '
    r'clip-path="url\(#[^"]*-line-(\d+)\)">(.*?)</text>'
)


def screen_text(app: App[object]) -> str:
    """Return what is on the screen, without colours."""
    width, height = app.size
    rows = [[" "] * width for _ in range(height)]
    for x, number, text in _TEXT.findall(app.export_screenshot(simplify=True)):
        column = round(float(x) / _CELL)
        for offset, sign in enumerate(html.unescape(text).replace("\u00a0", " ")):
            if column + offset < width:
                rows[int(number)][column + offset] = sign
    return "\n".join("".join(row).rstrip() for row in rows) + "\n"


def check_snapshot(name: str, text: str) -> None:
    """Compare with the stored screen; UPDATE_SNAPSHOTS=1 stores a new one."""
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"no snapshot {name}: make it with UPDATE_SNAPSHOTS=1"
    assert text == path.read_text(encoding="utf-8")
