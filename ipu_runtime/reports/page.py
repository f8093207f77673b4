"""A whole HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from ipu_runtime.reports.markup import Html, joined, tag

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Even what should never be in the page could not reach the network."""


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
    document = tag("html", tag("head", head), tag("body", body), lang="en")
    return f"<!doctype html>\n{document}\n"


def tiles(pairs: Iterable[tuple[object, object]]) -> Html:
    """Return the few numbers that matter most, large."""
    boxes = (tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs)
    return tag("dl", *boxes, class_="tiles")


def figure(caption: object, *content: object) -> Html:
    """Return a drawing with the sentence that explains it."""
    return tag("figure", *content, tag("figcaption", caption))
