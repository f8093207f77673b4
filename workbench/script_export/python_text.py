"""Python source text: literals and calls as a formatter would leave them."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

WIDTH = 88


def literal(value: Any) -> str:
    """Return a plain value as Python source; lists become tuples."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        items = ", ".join(literal(item) for item in value)
        return f"({items},)" if len(value) == 1 else f"({items})"
    if isinstance(value, Mapping):
        pairs = (f"{literal(key)}: {literal(item)}" for key, item in value.items())
        return f"{{{', '.join(pairs)}}}"
    return repr(value)


def call(
    function: str,
    arguments: Sequence[str],
    *,
    indent: int = 0,
    before: str = "",
    after: str = "",
) -> list[str]:
    """Return a call on one line, or broken where a formatter would break it.

    Args:
        function: What is called.
        arguments: Its arguments as source.
        indent: Spaces before every line.
        before: Source in front of the call, such as an assignment.
        after: Source behind it, such as the call of what it returns.
    """
    space = " " * indent
    start, listed = f"{space}{before}{function}(", ", ".join(arguments)
    if len(start) + len(listed) + 1 + len(after) <= WIDTH:
        return [f"{start}{listed}){after}"]
    if after[:1] == "(" and len(start) + len(listed) + 2 <= WIDTH:
        return [f"{start}{listed})(", f"{space}    {after[1:-1]}", f"{space})"]
    if len(space) + 4 + len(listed) <= WIDTH:
        return [start, f"{space}    {listed}", f"{space}){after}"]
    rows = [f"{space}    {item}," for item in arguments]
    return [start, *rows, f"{space}){after}"]


def keywords(values: Mapping[str, Any]) -> list[str]:
    """Return settings as keyword arguments."""
    return [f"{name}={literal(value)}" for name, value in values.items()]


def _text(value: str) -> str:
    # JSON's escapes are Python's, and it quotes as a formatter does.
    quoted = json.dumps(value, ensure_ascii=False)
    return quoted.replace("\x7f", "\\x7f")


def printed(function: Callable[..., Any], name: str = "") -> str:
    """Return the source of a function that runs call, without hints.

    Args:
        function: A function at the top of a module, written in ASCII.
        name: What the script calls it, if not the same.
    """
    text = inspect.getsource(function)
    (top,) = ast.parse(text).body
    assert isinstance(top, ast.FunctionDef)
    starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]

    def place(line: int | None, column: int | None) -> int:
        return starts[(line or 1) - 1] + (column or 0)

    def end(node: ast.expr) -> int:
        return place(node.end_lineno, node.end_col_offset)

    hints = [
        (end(node.target), end(node.annotation))
        for node in ast.walk(top)
        if isinstance(node, ast.AnnAssign)
    ]
    first = place(top.body[0].lineno, 0)
    for start, stop in sorted(hints, reverse=True):
        text = text[:start] + text[stop:]
    arguments = [ast.unparse(arg) for arg in _without_hints(top.args)]
    header = call(name or top.name, arguments, before="def ", after=":")
    return "\n".join(header) + "\n" + text[first:].rstrip()


def _without_hints(arguments: ast.arguments) -> list[ast.AST]:
    """Return parameters, those with a default as assignments."""
    plain: list[ast.AST] = [ast.Name(arg.arg) for arg in arguments.args]
    for at, default in enumerate(arguments.defaults, -len(arguments.defaults)):
        plain[at] = ast.keyword(arguments.args[at].arg, default)
    return plain
