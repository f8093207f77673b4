"""Writing a text to a file that the user names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.ui.screens.question import AskText, Confirm

if TYPE_CHECKING:
    from workbench.ui.app import WorkbenchApp


async def save_text(app: WorkbenchApp, proposal: str, text: str) -> Path | None:
    """Ask for a file, write the text, and say where it is."""
    name = await app.push_screen_wait(AskText("Save to file", proposal))
    if not name:
        return None
    path = Path(os.path.expanduser(name))
    if path.exists() and not await app.push_screen_wait(
        Confirm(f"{path} exists. Replace it?", "replace it", "keep it")
    ):
        return None
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        app.say(f"cannot write {path}: {error.strerror}", bad=True)
        return None
    app.say(f"wrote {path}")
    return path
