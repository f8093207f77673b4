"""`ipu-workbench plan`: what an experiment would do on the device."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.problem import Severity
from workbench.core.planning import plan_experiment
from workbench.core.text_table import TextStyle
from workbench.headless.diagnostics import report_problems
from workbench.headless.exit_codes import ExitCode
from workbench.headless.experiment_argument import (
    add_experiment_argument,
    read_experiment,
)
from workbench.headless.output import print_json, print_line
from workbench.headless.written_file import write_text


def add_parser(subparsers: Any) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "plan", help="model time, memory and timeline without running"
    )
    add_experiment_argument(parser)
    parser.add_argument("--json", action="store_true", help="one object")
    parser.add_argument(
        "--trace",
        metavar="FILE",
        type=Path,
        help="write the timeline for Perfetto or chrome://tracing",
    )
    parser.add_argument(
        "--schedules",
        action="store_true",
        help="also compare all schedules for the same stages (not with --json)",
    )
    add_text_arguments(parser)
    parser.set_defaults(run=run_plan)


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what decides how text looks."""
    parser.add_argument(
        "--ascii",
        action="store_true",
        default=argparse.SUPPRESS,
        help="no box and block characters",
    )


def run_plan(args: argparse.Namespace) -> int:
    """Print the plan of an experiment."""
    spec, loaded = read_experiment(args)
    plan = plan_experiment(spec)
    name = spec.experiment.name or loaded.preset.name
    code = plan_exit_code(plan)
    # Each is loaded only when it is printed: planning in a loop should start quickly.
    if args.json:
        from workbench.core.plan_json import plan_row

        print_json(plan_row(plan, name))
    elif code is not ExitCode.USAGE:
        from workbench.core.plan_text import plan_lines

        title = f"{name}: {spec.experiment.title}" if spec.experiment.title else name
        for line in plan_lines(plan, title, text_style(args)):
            print_line(line)
        if args.schedules:
            from workbench.core.schedule_text import schedule_lines

            print_line()
            for line in schedule_lines(spec, plan, text_style(args)):
                print_line(line)
    sys.stdout.flush()
    if code is ExitCode.USAGE or args.json:
        report_problems(plan.problems, args.experiment)
    if args.trace and code is not ExitCode.USAGE:
        # Late, because only this option needs it.
        from ipu_runtime.plan.trace import chrome_trace

        write_text(args.trace, json.dumps(chrome_trace(plan)))
    return code


def text_style(args: argparse.Namespace) -> TextStyle:
    """Return the layout that suits where the text goes."""
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    plain = bool(args.ascii) or not encoding.startswith("utf")
    width = shutil.get_terminal_size((100, 40)).columns if sys.stdout.isatty() else 100
    return TextStyle(max(width, 60), plain)


def plan_exit_code(plan: Plan) -> ExitCode:
    """Return what a plan means for whoever started the command."""
    severities = {problem.severity for problem in plan.problems}
    if Severity.ERROR in severities:
        return ExitCode.USAGE
    return ExitCode.NO_FIT if Severity.NO_FIT in severities else ExitCode.DONE
