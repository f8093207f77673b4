"""Values that nobody should write, and damage that files suffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from workbench.experiment.toml_text import to_toml

NASTY_TEXTS = (
    "",
    " ",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b2J",
    "line\nbreak\r\n\ttab",
    "[bold]markup[/bold]",
    "[@click=app.quit]press[/]",
    "[/x]",
    "[B]x[$nothing",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "../../etc/passwd",
    "/dev/zero",
    "~nobody-here/x.toml",
    "a\x00b",
    "'; import os; os.system('true') #",
    '"""\nimport os\n"""',
    "{0.__class__}",
    "%s%n%d",
    "$(true)",
    "\u202egnp.exe",
    "\ud7ff\ue000",
    "é" * 300,
    "x" * 5000,
    "nan",
    "-0",
    "١٢",
    "1e400",
)
texts = st.sampled_from(NASTY_TEXTS) | st.text(
    st.characters(exclude_categories=("Cs",)), max_size=30
)
"""Texts, the nasty ones often."""

NASTY_NUMBERS = (0, -1, 1, 2, 3, 7, 2**31, 2**63, 2**64, -(2**63), 10**40, 10**400)
numbers = st.sampled_from(NASTY_NUMBERS) | st.integers() | st.floats()

values = st.recursive(
    st.none().map(lambda _: "text") | st.booleans() | numbers | texts,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3)
    ),
    max_leaves=8,
)
"""Anything that TOML and JSON can both say."""

NASTY_SOURCES = (
    "1979-05-27",
    "1979-05-27T07:32:00Z",
    "07:32:00",
    "0x" + "f" * 5000,
    "9" * 5000,
    "1" + "_0" * 600,
    "[" * 300 + "]" * 300,
    "[" * 5000,
    "{a={a={a={a=1}}}}",
    "inf",
    "-nan",
    "[[]]",
    "[1, 'a', {}]",
    '"\\u0000\\u001b[2J"',
    '"\\U0010ffff"',
    "",
    "1\nother = 2",
    '"unclosed',
    "'''",
)
sources = st.sampled_from(NASTY_SOURCES)
"""TOML source of values that Python could not write."""

_HOLE = "@hole@"


def damaged(content: bytes) -> st.SearchStrategy[bytes]:
    """Cut or corrupt a file at any byte."""
    places = st.integers(0, max(len(content) - 1, 0))
    cut = places.map(lambda place: content[:place])
    changed = st.builds(
        lambda place, byte: content[:place] + bytes([byte]) + content[place + 1 :],
        places,
        st.integers(0, 255),
    )
    grown = st.builds(
        lambda place, more: content[:place] + more + content[place:],
        places,
        st.binary(min_size=1, max_size=12),
    )
    torn = st.builds(
        lambda place, count: content[:place] + content[place + count :],
        places,
        st.integers(1, 64),
    )
    return st.one_of(cut, changed, grown, torn)


@st.composite
def changed_tables(
    draw: st.DrawFn, tables: Mapping[str, Any], most: int = 3
) -> dict[str, Any]:
    """Put values that do not belong there anywhere into tables."""
    changed: Any = _copy(tables)
    for _ in range(draw(st.integers(1, most))):
        if not changed:  # Everything has been dropped already.
            break
        container, key = draw(_places(changed))
        action = draw(st.sampled_from(("value", "number", "text", "drop", "new", "up")))
        if action == "drop":
            container.pop(key)
        elif action == "new" and isinstance(container, dict):
            container[draw(texts)] = draw(values)
        elif action == "up":
            container[key] = [container[key], container[key]]
        elif action == "number":
            container[key] = draw(numbers)
        elif action == "text":
            container[key] = draw(texts)
        else:
            container[key] = draw(values)
    return dict(changed)


@st.composite
def changed_toml(draw: st.DrawFn, tables: Mapping[str, Any]) -> str:
    """Write tables with one value that only TOML source can express."""
    changed: Any = _copy(tables)
    container, key = draw(_places(changed))
    container[key] = _HOLE
    return to_toml(changed).replace(f'"{_HOLE}"', draw(sources))


@st.composite
def _places(draw: st.DrawFn, root: Any) -> tuple[Any, Any]:
    """Choose a container and one of its keys, at any depth."""
    container, key = root, draw(st.sampled_from(sorted(root, key=repr)))
    while draw(st.integers(0, 3)):
        inner = container[key]
        if isinstance(inner, dict) and inner:
            container, key = inner, draw(st.sampled_from(sorted(inner, key=repr)))
        elif isinstance(inner, list) and inner:
            container, key = inner, draw(st.integers(0, len(inner) - 1))
        else:
            break
    return container, key


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item) for item in value]
    return value
