"""Errors in one line."""

from __future__ import annotations

import pytest

from workbench.core.error_line import telling_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "no further explanation"),
        ("\n  \n", "no further explanation"),
        ("  one\ntwo", "one"),
        ("\x1b[1mbold\x1b[0m", "bold"),
        (
            "Exception encountered when calling Sequential.call().\n\n"
            "\x1b[1m'a b' is not a valid scope name\x1b[0m\n\nArguments received",
            "'a b' is not a valid scope name",
        ),
        (
            "Exception encountered when calling A.",
            "Exception encountered when calling A.",
        ),
    ],
    ids=["empty", "blank", "two", "bold", "wrapped", "wrapped alone"],
)
def test_the_line_that_tells_is_taken(text: str, line: str) -> None:
    assert telling_line(ValueError(text)) == line
