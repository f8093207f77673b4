"""Colours: the themes to choose from and what the plots take from them."""

from __future__ import annotations

from dataclasses import replace

from textual.theme import BUILTIN_THEMES, Theme

DARK = Theme(
    name="workbench-dark",
    primary="#5aa9e6",
    secondary="#7f9cb8",
    accent="#f2b134",
    foreground="#dbe2ea",
    background="#12161c",
    surface="#181e26",
    panel="#222b36",
    success="#4fc08d",
    warning="#f2b134",
    error="#ef767a",
    dark=True,
    variables={"border-blurred": "#3b4757"},
)
LIGHT = Theme(
    name="workbench-light",
    primary="#0b62a4",
    secondary="#4c6478",
    accent="#9a5b00",
    foreground="#1c2530",
    background="#fbfbf9",
    surface="#f3f3ef",
    panel="#e6e7e2",
    success="#14774b",
    warning="#9a5b00",
    error="#b3261e",
    dark=False,
    variables={
        "border-blurred": "#b9c0c7",
        "phase-forward": "#0b62a4",
        "phase-backward": "#b3261e",
        "phase-recompute": "#14774b",
        "phase-weights": "#7a3fa0",
        "phase-update": "#9a5b00",
    },
)
THEMES: tuple[str, ...] = (DARK.name, LIGHT.name, "ansi-dark", "ansi-light")
"""What one key steps through; every theme of Textual can be named in the settings."""

VARIABLES: dict[str, str] = {
    "phase-forward": "#5aa9e6",
    "phase-backward": "#ef767a",
    "phase-recompute": "#4fc08d",
    "phase-weights": "#c792ea",
    "phase-update": "#f2b134",
}
"""Defaults of the variables that are ours; a theme may set its own."""

RUN_COLOURS: tuple[tuple[int, int, int], ...] = (
    (86, 156, 230),
    (230, 159, 0),
    (0, 168, 120),
    (204, 121, 167),
    (213, 94, 0),
    (120, 130, 220),
)
"""Curves of compared runs; told apart by colour-blind readers too."""
RUN_MARKERS: tuple[str, ...] = ("●", "▲", "■", "◆", "+", "%")


def theme_problem(name: str) -> str:
    """Return why a theme cannot be used; empty if it can, or none is named."""
    known = {DARK.name, LIGHT.name, *BUILTIN_THEMES}
    if not name or name in known:
        return ""
    return f"there is no theme {name!r}; valid: {', '.join(sorted(known))}"


def with_visible_borders(theme: Theme) -> Theme:
    """Return a theme of the terminal's own colours whose panels can be told apart.

    Textual draws their borders in the colour of the background.
    """
    variables = {**theme.variables, "border-blurred": "ansi_bright_black"}
    return replace(theme, variables=variables)


def next_theme(name: str) -> str:
    """Return the theme after this one; one that is not ours leads to the first."""
    if name not in THEMES:
        return THEMES[0]
    return THEMES[(THEMES.index(name) + 1) % len(THEMES)]


def hex_colour(colour: tuple[int, int, int]) -> str:
    """Return a colour as markup writes it."""
    return "#{:02x}{:02x}{:02x}".format(*colour)
