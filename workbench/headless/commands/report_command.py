"""`ipu-workbench report`: a run as one HTML page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from workbench.headless.arguments import add_run_argument
from workbench.headless.exit_codes import ExitCode
from workbench.headless.output import write_text
from workbench.services.recorded_runs import find
from workbench.views.run import report_page


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser("report", help="write a run as an HTML page")
    add_run_argument(parser)
    parser.add_argument(
        "--html", metavar="FILE", required=True, help="the page; it needs no network"
    )
    parser.set_defaults(run=_report)


def _report(args: argparse.Namespace) -> int:
    write_text(Path(args.html), report_page(find(args.run_id)))
    return ExitCode.DONE
