"""Files that a command writes where the user says."""

from __future__ import annotations

import os
from pathlib import Path

from workbench.core.record_files import explained, replace_file
from workbench.headless.diagnostics import say


def write_text(path: Path, text: str) -> None:
    """Write a file as a whole and say so."""
    path = Path(os.path.expanduser(path))
    if path.exists() and not path.is_file():
        # A device or a pipe, which cannot be replaced but can be written.
        with explained(path), path.open("w", encoding="utf-8") as stream:
            stream.write(text)
        return
    replace_file(path, text.encode())
    say(f"{path} written")
