"""HTML that cannot be broken by what is put into it, and needs nothing but itself."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files

from ipu_runtime.reports.plain_text import plain_text

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Even what should never be in the page could not reach the network."""


class Html(str):
    """Text that is HTML already; everything else is escaped."""

    __slots__ = ()


def html(value: object) -> Html:
    """Return a value as HTML, escaped unless it is HTML."""
    if isinstance(value, Html):
        return value
    # Control characters have no place in HTML, escaped or not.
    return Html(escape(plain_text(str(value)), quote=True))


def tag(name: str, *content: object, **attributes: object) -> Html:
    """Return an element; `class_` and `stroke_width` become `class`, `stroke-width`."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(html(item) for item in content)
    return Html(f"<{name}{written}>{inner}</{name}>")


def joined(parts: Iterable[object]) -> Html:
    """Return parts one after the other."""
    return Html("".join(html(part) for part in parts))


def page(title: str, parts: Iterable[object], footer: str = "") -> str:
    """Return the text of an HTML file with the given parts."""
    style = (files("ipu_runtime.reports") / "page.css").read_text(encoding="utf-8")
    head = joined(
        [
            Html('<meta charset="utf-8">'),
            Html('<meta name="viewport" content="width=device-width">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
            tag("title", title),
            tag("style", Html(style)),
        ]
    )
    body = joined([*parts, tag("footer", footer)])
    written = tag("html", tag("head", head), tag("body", body), lang="en")
    return f"<!doctype html>\n{written}\n"


def tiles(pairs: Iterable[tuple[object, object]]) -> Html:
    """Return the few numbers that matter most, large."""
    boxes = (tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs)
    return tag("dl", *boxes, class_="tiles")


def figure(caption: object, *content: object) -> Html:
    """Return a drawing with the sentence that explains it."""
    return tag("figure", *content, tag("figcaption", caption))
