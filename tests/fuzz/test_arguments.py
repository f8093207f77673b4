"""What a user types is shown as it can be seen, in whatever place it was typed."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz.cases import cases, command
from tests.fuzz.hostile import NASTY_TEXTS
from workbench.headless.main import COMMANDS

CONTROLS = "\x1b[31mred\x1b]0;title\x07\x9b2J"
PLACES = (
    ("HERE",),
    ("HERE", "mnist-dense"),
    ("plan", "HERE"),
    ("plan", "mnist-dense", "HERE"),
    ("plan", "mnist-dense", "--HERE"),
    ("plan", "mnist-dense", "--set", "HERE"),
    ("plan", "mnist-dense", "--set", "HERE=1"),
    ("plan", "mnist-dense", "--set", "train.optimizer=HERE"),
    ("plan", "mnist-dense", "--set", "data.dataset=HERE.npz"),
    ("plan", "HERE.keras"),
    ("plan", "HERE.py:build"),
    ("plan", "mnist-dense", "--json=HERE"),
    ("presets", "show", "HERE"),
    ("presets", "HERE"),
    ("run", "--resume", "HERE"),
    ("run", "mnist-dense", "--seed", "HERE"),
    ("run", "mnist-dense", "--on", "HERE"),
    ("sweep", "mnist-dense", "--plan-only", "--grid", "HERE"),
    ("sweep", "mnist-dense", "--plan-only", "--grid", "data.batch_size=HERE"),
    ("sweep", "--resume", "HERE"),
    ("runs", "show", "HERE"),
    ("runs", "list", "--group", "HERE"),
    ("runs", "list", "--limit", "HERE"),
    ("runs", "export", "HERE"),
    ("export", "HERE"),
    ("export", "mnist-dense", "--script", "/nowhere/HERE"),
    ("report", "HERE", "--html", "x.html"),
    ("balance", "HERE"),
    ("optimize", "mnist-dense", "--goal", "HERE"),
    ("import", "HERE"),
    ("capture", "HERE", "--output", "x.toml"),
)


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
def test_control_characters_command_no_terminal(place: tuple[str, ...]) -> None:
    command(*(word.replace("HERE", CONTROLS) for word in place))


@cases
@given(
    first=st.sampled_from([*COMMANDS, ""]).filter(lambda name: name != "serve"),
    words=st.lists(st.sampled_from(NASTY_TEXTS), min_size=1, max_size=3),
)
@example(first="exec", words=["x" * 5_000])
def test_nasty_words_after_any_command(first: str, words: list[str]) -> None:
    without_nul = [word.replace("\0", "") for word in words]
    if first in ("exec", "capture"):
        without_nul[0] = f"/nowhere/{without_nul[0]}"
    command(*([first] if first else ["runs"]), *without_nul)
