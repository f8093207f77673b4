"""`ipu-workbench validate`: the model beside everything published that it cites."""

from __future__ import annotations

import argparse
from typing import Any

from ipu_runtime.plan.hardware import HardwareFileError
from workbench.headless.diagnostics import say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.output import print_document, print_json, text_style
from workbench.locations import hardware_file
from workbench.published.published_figure import NotPlanned
from workbench.services.refused import Refused


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "validate",
        help="hold the model against figures that others have published",
        description="Plans what others have measured on real systems and prints both "
        "figures, the error, and whether the bands of plan --band keep to the coverage "
        "that they state. Nothing runs.",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="one object per line, the last is what they come to",
    )
    parser.set_defaults(run=run_validate)


def run_validate(args: argparse.Namespace) -> int:
    """Print every published figure beside the modelled one."""
    if path := hardware_file():
        say(f"with the hardware of {path}")
    try:
        # As lists: what cannot be planned is known before anything is printed.
        if args.json:
            # Late, as the text below: each has an output of its own.
            from workbench.published.validation_json import validation_rows

            for row in list(validation_rows()):
                print_json(row)
        else:
            from workbench.views.validation import validation_document

            width = text_style().width
            print_document(validation_document(width), ascii_only=args.ascii)
    except (HardwareFileError, NotPlanned) as error:
        hint = "unset IPU_WORKBENCH_HARDWARE" if path else ""
        raise Refused(str(error), hint, "hardware") from error
    return ExitCode.DONE
