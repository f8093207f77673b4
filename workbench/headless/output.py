"""Results: lines, tables and JSON on standard output, or a file that the user names."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ipu_runtime.plan.quantities import four_digits
from ipu_runtime.reports.document import Document
from ipu_runtime.reports.plain_text import plain_line, plain_text
from ipu_runtime.system.file_replacing import replace_file
from workbench.headless.diagnostics import say
from workbench.store_json import explained
from workbench.views.cells import cell_width, pad
from workbench.views.layout import TextStyle, document_text


def print_line(text: str = "") -> None:
    """Print one line of a result."""
    sys.stdout.write(f"{plain_text(text)}\n")


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what decides how text looks."""
    parser.add_argument(
        "--ascii",
        action="store_true",
        default=argparse.SUPPRESS,
        help="no box and block characters",
    )


def text_style(*, ascii_only: bool = False) -> TextStyle:
    """Return the layout that suits where the text goes."""
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    plain = ascii_only or not encoding.startswith("utf")
    width = shutil.get_terminal_size((100, 40)).columns if sys.stdout.isatty() else 100
    return TextStyle(max(width, 60), plain)


def print_document(document: Document, *, ascii_only: bool = False) -> None:
    """Print a document in the width of the terminal, as text without colours."""
    for line in document_text(document, text_style(ascii_only=ascii_only)):
        print_line(line)


def print_text(text: str) -> None:
    """Print a text that brings its own line ends."""
    sys.stdout.write(plain_text(text))


def print_json(row: Mapping[str, Any]) -> None:
    """Print one object on a line of its own, at once."""
    # Late, because it loads all events, which most commands have none of.
    from workbench.runs.event_json import to_line

    sys.stdout.write(to_line(row))
    sys.stdout.flush()


@contextmanager
def readers_may_leave() -> Iterator[None]:
    """Show something before what is left to do, which does not depend on readers."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Let what is still to be written at exit go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def write_text(path: Path, text: str) -> None:
    """Write a file as a whole and say so."""
    path = Path(os.path.expanduser(path))
    with explained(path):
        replace_file(path, text)
    if path.is_file():
        say(f"{path} written")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print aligned columns; numbers to the right, texts to the left."""
    cells = [[_shown(cell) for cell in row] for row in rows]
    widths = [
        max([cell_width(heading), *(cell_width(row[column]) for row in cells)])
        for column, heading in enumerate(headings)
    ]
    numeric = [
        bool(rows) and all(isinstance(row[column], int | float | None) for row in rows)
        for column in range(len(headings))
    ]
    for line in ([*headings], *cells):
        padded = [
            pad(text, width, right=right)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        print_line("  ".join(padded).rstrip())


def _shown(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return four_digits(cell)
    return plain_line(str(cell))
