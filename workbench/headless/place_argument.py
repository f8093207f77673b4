"""`--on`: where a command's work is done."""

from __future__ import annotations

import argparse

from workbench.core.cluster.place import FORMS, Place, parse_place


def add_place_argument(parser: argparse.ArgumentParser, default: str = "local") -> None:
    """Add `--on`."""
    parser.add_argument(
        "--on",
        metavar="PLACE",
        type=_place,
        default=default,
        help=f"where: {FORMS}; ray starts Ray on this machine, auto is the cluster "
        f"that this machine is part of; default: {default}",
    )


def _place(text: str) -> Place:
    try:
        return parse_place(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
