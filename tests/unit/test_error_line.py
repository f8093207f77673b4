"""Errors in one line."""

from __future__ import annotations

import pytest

from workbench.error_line import telling_line


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


def test_what_a_graph_met_is_told_instead_of_where_it_was_defined() -> None:
    text = (
        "Graph execution error:\n\nDetected at node conv/Filter defined at (most "
        'recent call last):\n  File "train.py", line 3, in <module>\n\n'
        "only channels last are known\n\t [[{{node conv/Filter}}]] [Op:step]"
    )
    assert telling_line(ValueError(text)) == "only channels last are known"


def test_a_line_that_announces_the_next_one_is_told_with_it() -> None:
    error = ValueError("one object could not be loaded:\n\n'd' expected 3 variables\n")
    told = "one object could not be loaded: 'd' expected 3 variables"
    assert telling_line(error) == told
