"""The page about what the emulator has of the real API."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator

from docs.coverage.comparison import (
    Covered,
    Standing,
    api_coverage,
    internal,
    module_coverage,
    setting_coverage,
    shortened,
)
from docs.coverage.declared_effects import INTERNAL
from docs.coverage.real_api import public_modules, public_names
from docs.tables import markdown

_compared = functools.cache(api_coverage)


def coverage_share() -> str:
    """One sentence with the counts."""
    count = Counter(item.standing for item in _compared())
    total = count.total()
    full, partial, absent = (
        f"{count[standing]} ({_percent(count[standing], total)})"
        for standing in (Standing.FULL, Standing.PARTIAL, Standing.ABSENT)
    )
    return (
        f"Of {total} public functions, classes and model methods of the real packages, "
        f"the emulator has {full} in full, {partial} in part, and {absent} not at all."
    )


def coverage() -> str:
    """Totals, modules, then every name by area."""
    names, settings = _compared(), setting_coverage()
    parts = [coverage_share(), _totals(names, settings), "## Modules", _modules()]
    for area, covered in _by_area(names):
        parts += [f"## Names: {area}", _names(covered)]
    parts += ["## Names that are internal to the real packages", _internal()]
    for area, covered in _by_area(settings):
        parts += [f"## Settings: {area}", _names(covered)]
    return "\n\n".join(parts)


def _by_area(covered: Iterable[Covered]) -> Iterator[tuple[str, list[Covered]]]:
    by_area: dict[str, list[Covered]] = {}
    for item in covered:
        by_area.setdefault(item.area, []).append(item)
    yield from sorted(by_area.items())


def _totals(names: Iterable[Covered], settings: Iterable[Covered]) -> str:
    rows = []
    for area, covered in (*_by_area(names), *_by_area(settings)):
        count = Counter(item.standing for item in covered)
        of_each = [str(count[standing]) for standing in Standing]
        share = _percent(count[Standing.FULL], count.total())
        rows.append([area, str(count.total()), *of_each, share])
    internal_names = str(sum(1 for _ in _internal_names()))
    rows.append(["internal to the real packages", internal_names, *["-"] * 5])
    standings = [standing.value for standing in Standing]
    return markdown(("area", "names", *standings, "share of full"), rows)


def _modules() -> str:
    return markdown(
        ("module", "standing", "full names"),
        [
            [f"`{item.name}`", item.standing.value, f"{item.full} of {item.names}"]
            for item in module_coverage(_compared())
        ],
    )


def _names(covered: list[Covered]) -> str:
    columns = ["name", "standing", "note"]
    rows = [[f"`{item.name}`", item.standing.value, item.note] for item in covered]
    if len({item.sdk for item in covered}) > 1:
        columns.append("SDK")
        rows = [[*row, item.sdk] for row, item in zip(rows, covered, strict=True)]
    return markdown(columns, rows)


def _internal_names() -> Iterator[tuple[str, str]]:
    """Yield names, methods and modules with the pattern that makes them internal."""
    defined = {real.dotted: real for real in public_names()}
    methods = [
        f"{dotted}.{method}"
        for dotted, real in defined.items()
        for method in real.signatures
        if not internal(dotted)
    ]
    for name in (*defined, *methods, *public_modules()):
        if pattern := internal(name):
            yield name, pattern


def _internal() -> str:
    by_pattern: dict[str, list[str]] = {pattern: [] for pattern in INTERNAL}
    for name, pattern in _internal_names():
        by_pattern[pattern].append(f"`{shortened(name)}`")
    return markdown(
        ("pattern", "what they are", "names"),
        [
            [f"`{pattern}`", INTERNAL[pattern], ", ".join(names)]
            for pattern, names in by_pattern.items()
        ],
    )


def _percent(part: int, total: int) -> str:
    return f"{100 * part / total:.0f} %"
