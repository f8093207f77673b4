"""`python -m docs.generate`: write the generated tables of README and docs anew.

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`; what is between
them is replaced. With `--check` nothing is written and stale blocks are named.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Collection
from pathlib import Path

from docs import (
    applications,
    published,
    tables,
)
from docs.coverage import page as coverage_page

ROOT = Path(__file__).parent.parent
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCKS: dict[str, Callable[[], str]] = {
    "examples": tables.examples,
    "calibration": published.fitted,
    "commands": tables.commands,
    "coverage": coverage_page.coverage,
    "coverage_share": coverage_page.coverage_share,
    "config": tables.modelled_config,
    "layers": tables.layer_kinds,
    "applications": applications.table,
    "published": published.throughputs,
    "published_memory": published.memory,
    "published_not_planned": published.not_planned,
    "published_cycles": published.cycles,
    "constants": published.constants,
    "keys": tables.keys,
    "habits": tables.habits,
}
NEED_TENSORFLOW = frozenset({"coverage", "coverage_share"})
"""Blocks that take seconds, because they look at the whole API."""
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def regenerated(text: str, kept: Collection[str] = ()) -> str:
    """Return a document with all its blocks made anew but those that are kept."""
    return _BLOCK.sub(
        lambda found: (
            found[0]
            if found[2] in kept
            else f"{found[1]}{BLOCKS[found[2]]()}\n{found[3]}"
        ),
        text,
    )


def stale() -> list[str]:
    """Return the documents whose blocks are not what the commands make."""
    return [
        path.name
        for path in DOCUMENTS
        if path.read_text(encoding="utf-8") != regenerated(path.read_text("utf-8"))
    ]


def main() -> int:
    """Write or check the documents."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate")
    parser.add_argument("--check", action="store_true", help="only name stale ones")
    if parser.parse_args().check:
        names = stale()
        print("stale: " + ", ".join(names) if names else "all documents are current")
        return 1 if names else 0
    for path in DOCUMENTS:
        path.write_text(regenerated(path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
