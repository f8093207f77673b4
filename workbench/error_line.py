"""An error in one line: the one that tells what happened."""

from __future__ import annotations

import re

from ipu_runtime.reports.plain_text import without_terminal_codes

_HEADING = re.compile(
    r"Exception encountered when calling |Graph execution error:|Detected at |File \""
    r"|<stack traces unavailable>|\d+ root error\(s\) found"
)
"""How Keras and TensorFlow begin; what it was follows below."""


def telling_line(error: BaseException) -> str:
    """Return the first line of an error's text that says something."""
    text = without_terminal_codes(str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not _HEADING.match(line)] or lines
    if len(told) > 1 and told[0].endswith(":"):
        return f"{told[0]} {told[1]}"
    return told[0] if told else "no further explanation"
