"""`runs show`, `runs compare` and `runs export`: what is read of runs one by one."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ipu_runtime.plan.problem import Problem
from workbench.comparing.compare import compare_runs, comparison_to_json
from workbench.comparing.explaining import explain, explanation_to_json
from workbench.export.run_export import run_to_json, runs_to_csv
from workbench.headless.diagnostics import UsageError, say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.native_output import NativeLog
from workbench.headless.output import (
    print_document,
    print_json,
    print_line,
    print_text,
    write_text,
)
from workbench.headless.run_argument import find_run
from workbench.runs.event_json import to_line
from workbench.runs.run_store import StoredRun
from workbench.views.comparison import comparison_document
from workbench.views.explanation import explanation_document
from workbench.views.run import run_document


def _show(args: argparse.Namespace) -> int:
    run = find_run(args.run_id)
    if args.json:
        print_json(run_to_json(run))
    else:
        print_document(run_document(run), ascii_only=args.ascii)
    return ExitCode.DONE


def _compare(args: argparse.Namespace) -> int:
    runs = [find_run(name) for name in args.runs]
    if len({run.run_id for run in runs}) < 2:
        hint = "name two or more"
        raise UsageError([Problem("RUN", "a run cannot be compared to itself", hint)])
    if args.explain and len(runs) != 2:
        text = f"goes from one run to another, not between {len(runs)}"
        raise UsageError([Problem("--explain", text, "name two")])
    comparison = compare_runs(runs)
    if args.json:
        print_json(comparison_to_json(comparison))
    else:
        print_document(comparison_document(comparison), ascii_only=args.ascii)
    if args.explain:
        _explain(args, *runs)
    return ExitCode.DONE


def _explain(args: argparse.Namespace, first: StoredRun, second: StoredRun) -> None:
    explanation = explain(first, second)
    if args.json:
        print_json(explanation_to_json(first, second, explanation))
    else:
        print_line()
        ids = first.run_id, second.run_id
        document = explanation_document(explanation, *ids)
        print_document(document, ascii_only=args.ascii)


def _export(args: argparse.Namespace) -> int:
    runs = [find_run(name) for name in args.runs]
    if args.format == "tensorboard":
        _export_event_files(runs, args.output)
        return ExitCode.DONE
    if args.format == "csv":
        text = runs_to_csv(runs)
    else:
        text = "".join(to_line(run_to_json(run)) for run in runs)
    if args.output is None:
        print_text(text)
    else:
        write_text(Path(args.output), text)
    return ExitCode.DONE


def _export_event_files(runs: Sequence[StoredRun], output: str | None) -> None:
    if output is None:
        hint = "name a directory"
        raise UsageError([Problem("--output", "is missing for tensorboard", hint)])
    with NativeLog() as native_log:
        native_log.drop()
        # It loads TensorFlow, which takes seconds.
        from workbench.export.tensorboard_export import write_event_files

        directory = Path(os.path.expanduser(output))
        for run in runs:
            write_event_files(run.events(), directory / run.run_id)
    say(f"{len(runs)} written; look at them with: tensorboard --logdir {directory}")


ACTIONS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "show": _show,
    "compare": _compare,
    "export": _export,
}
"""By the word that names each."""
