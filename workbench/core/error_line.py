"""An error in one line: the one that tells what happened."""

from __future__ import annotations

import re

_WRAPPED = "Exception encountered when calling "
"""How Keras begins; what it was follows below."""
_COLOUR_CODE = re.compile(r"\x1b\[[0-9;]*m")


def telling_line(error: BaseException) -> str:
    """Return the first line of an error's text that says something."""
    text = _COLOUR_CODE.sub("", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(_WRAPPED):
        return lines[1]
    return lines[0] if lines else "no further explanation"
