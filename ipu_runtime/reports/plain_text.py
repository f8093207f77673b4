"""Text from files and users, made safe to show.

Presets, records and messages of other libraries may hold anything. Control characters
could command a terminal, and signs that turn the direction of writing could make a
text look like another one; each becomes one visible sign.
"""

from __future__ import annotations

import re

_UNKNOWN = "�"
_FIRST_PICTURE = 0x2400
"""Unicode has a picture of every control character below the blank, in order."""
_WRITING_DIRECTION = (*range(0x200E, 0x2010), *range(0x202A, 0x202F), 0x061C)
_ISOLATES = range(0x2066, 0x206A)
_LINE_ENDS = (0x2028, 0x2029)
_SURROGATES = "\ud800-\udfff"

_SIGNS = {
    **{code: chr(_FIRST_PICTURE + code) for code in range(0x20)},
    0x7F: "\u2421",
    **{code: _UNKNOWN for code in range(0x80, 0xA0)},
    **{code: _UNKNOWN for code in (*_WRITING_DIRECTION, *_ISOLATES, *_LINE_ENDS)},
}
del _SIGNS[ord("\n")], _SIGNS[ord("\t")]
_HARMFUL = re.compile(f"[{''.join(map(re.escape, map(chr, _SIGNS)))}{_SURROGATES}]")

_TERMINAL = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?)")


def without_terminal_codes(text: str) -> str:
    """Return what was printed for a terminal, without its colours and commands."""
    return _TERMINAL.sub("", text)


def plain_text(text: str) -> str:
    """Return a text in which only line ends and tabs are more than visible signs."""
    if _HARMFUL.search(text) is None:
        return text
    return _HARMFUL.sub(lambda found: _SIGNS.get(ord(found[0]), _UNKNOWN), text)


def plain_line(text: str) -> str:
    """Return a text as one line of visible signs."""
    return plain_text(" ".join(text.splitlines()) if "\n" in text else text)


def without_harmful(text: str) -> str:
    """Return a text without the characters that `plain_text` replaces."""
    return _HARMFUL.sub("", text)


def is_plain(text: str) -> bool:
    """Tell whether a text can be shown as it is."""
    return _HARMFUL.search(text) is None
