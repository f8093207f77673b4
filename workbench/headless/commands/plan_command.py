"""`ipu-workbench plan`: what an experiment would do on the device."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.plan_json import plan_to_json, walks_to_json
from ipu_runtime.plan.problem import Problem, Severity, deciding_first
from ipu_runtime.reports.document import Section
from ipu_runtime.reports.memory_sections import walk_section
from ipu_runtime.reports.plan_document import plan_document
from workbench import api
from workbench.data.sample_counts import sample_words
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.tables import spec_to_tables
from workbench.headless.arguments import (
    add_experiment_argument,
    read_experiment,
)
from workbench.headless.diagnostics import report_problems, say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.output import (
    add_text_arguments,
    print_document,
    print_json,
    readers_may_leave,
    write_text,
)
from workbench.headless.plan_gate_argument import (
    add_gate_arguments,
    gate_keeps,
    print_comparison,
    read_gate,
)
from workbench.services.refused import Refused, check_target


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
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--schedules",
        action="store_true",
        help="also compare all schedules for the same stages (not with --json)",
    )
    parser.add_argument(
        "--band",
        action="store_true",
        help="also show how far off the main figures may be",
    )
    kind.add_argument(
        "--inference",
        action="store_true",
        help="plan predictions on the test data instead of training",
    )
    parser.add_argument(
        "--memory",
        action="store_true",
        help="also show memory over the steps of the program, and what is alive "
        "where it is fullest (with --json: memory_walk)",
    )
    add_gate_arguments(parser)
    add_text_arguments(parser)
    parser.set_defaults(run=run_plan)


def run_plan(args: argparse.Namespace) -> int:
    """Print the plan of an experiment."""
    check_target("--trace", args.trace, args.experiment)
    conditions, other = read_gate(args)
    spec, loaded = read_experiment(args, warn=False)
    plan = api.plan(spec, inference=args.inference)
    plan = replace(plan, problems=deciding_first((*loaded.problems, *plan.problems)))
    name = spec.experiment.name or loaded.preset.name
    if plan.not_modelled:
        _check_no_figures(args, plan)
    code = plan_exit_code(plan)
    more_json: dict[str, Any] = {}
    more: list[Section] = []
    if args.band:
        # Late, because only this option needs them.
        from ipu_runtime.plan.band import plan_band
        from workbench.views.band import band_row, band_section

        if band := plan_band(plan):
            more_json["band"] = band_row(band)
            more.append(band_section(band))
    if args.memory:
        from ipu_runtime.plan.planner import walk_memory

        if walks := walk_memory(plan):
            more_json["memory_walk"] = walks_to_json(walks)
            more.append(walk_section(walks))
    if args.schedules and not args.json:
        from workbench.planning.schedule_comparison import compare_schedules
        from workbench.views.schedules import schedules_section

        more.append(schedules_section(compare_schedules(spec, plan), plan))
    with readers_may_leave():
        if args.json:
            row = {"event": "plan", "preset": name, **plan_to_json(plan)}
            print_json(row | more_json | _instead(plan, spec, loaded.preset.name))
        elif code is not ExitCode.USAGE:
            # Late, because planning in a loop should start quickly.
            from workbench.planning.advising import advise_experiment
            from workbench.views.cpu import cpu_document

            title = (
                f"{name}: {spec.experiment.title}" if spec.experiment.title else name
            )
            samples = sample_words(spec) if plan.request.training else ""
            if plan.not_modelled:
                tables = spec_to_tables(spec)
                document = cpu_document(plan, title, tables, loaded.preset.name)
            else:
                advice = () if args.inference else advise_experiment(spec, plan)
                document = plan_document(plan, title, samples, advice)
            document = replace(document, sections=(*document.sections, *more))
            print_document(document, ascii_only=args.ascii)
    if code is ExitCode.USAGE or args.json:
        report_problems(plan.problems, args.experiment)
    if args.trace and code is not ExitCode.USAGE:
        # Late, because only this option needs it.
        from ipu_runtime.plan.trace import chrome_trace

        trace = chrome_trace(plan)
        write_text(args.trace, json.dumps(trace))
        if left_out := trace["otherData"]["tasks_left_out"]:
            say(f"{args.trace}: without {left_out:,} tasks in the middle of the run")
    if code is ExitCode.USAGE:
        return code
    if not conditions and other is None:
        return code
    figures = plan_to_json(plan)
    if other is not None and not args.json:
        print_comparison(figures, other, args.compare)
    return code if gate_keeps(conditions, figures, other) else ExitCode.GATE


def _check_no_figures(args: argparse.Namespace, plan: Plan) -> None:
    """Refuse what asks for figures of a device."""
    asked = {
        "--fail-if": args.fail_if,
        "--compare": args.compare,
        "--band": args.band,
        "--memory": args.memory,
        "--schedules": args.schedules,
        "--trace": args.trace,
    }
    wrong = [
        Problem(option, f"needs modelled figures; {plan.not_modelled}")
        for option, value in asked.items()
        if value
    ]
    if wrong:
        raise Refused.for_problems(wrong)


def _instead(plan: Plan, spec: ExperimentSpec, preset: str) -> dict[str, Any]:
    """Return what stands where no device is modelled."""
    if not plan.not_modelled:
        return {}
    # Late, because it reads the records of runs.
    from workbench.runs.cpu_figures import cpu_json

    return cpu_json(spec_to_tables(spec), preset)


def plan_exit_code(plan: Plan) -> ExitCode:
    """Return what a plan means for whoever started the command."""
    severities = {problem.severity for problem in plan.problems}
    if Severity.ERROR in severities:
        return ExitCode.USAGE
    return ExitCode.NO_FIT if Severity.NO_FIT in severities else ExitCode.DONE
