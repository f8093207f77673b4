"""`--on` and `--allow-network`: where a command's work is done."""

from __future__ import annotations

import argparse
from dataclasses import replace

from workbench.cluster.place import FORMS, WAIT_S, Place, parse_place

_MOST_DIGITS = 9


def add_place_argument(parser: argparse.ArgumentParser, default: str = "local") -> None:
    """Add `--on`, and what belongs to it."""
    parser.add_argument(
        "--on",
        metavar="PLACE",
        type=_place,
        default=default,
        help=f"where: {FORMS}; ray starts Ray on this machine, auto is the cluster "
        f"that this machine is part of; default: {default}",
    )
    parser.add_argument(
        "--allow-network",
        action="store_true",
        help="allow machines with public addresses: nothing is encrypted",
    )
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=_seconds,
        default=WAIT_S,
        help="how long to wait for machines of a cluster that are gone or too small; "
        f"default: {WAIT_S:g}",
    )


def chosen_place(args: argparse.Namespace) -> Place:
    """Return the place that a command line names."""
    place: Place = args.on
    return replace(place, network_allowed=args.allow_network, wait_s=args.wait)


def _seconds(text: str) -> float:
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{text!r} must be whole seconds from 0 on")
    return float(text)


def _place(text: str) -> Place:
    try:
        return parse_place(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
