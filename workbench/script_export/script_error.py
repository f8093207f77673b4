"""What an export says when it cannot be done."""

from __future__ import annotations


class ScriptError(Exception):
    """The experiment cannot be written as a script; the text says why."""
