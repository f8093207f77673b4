"""`runs show`, `runs compare` and `runs export`: what is read of runs one by one."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from workbench.comparing.compare import comparison_to_json
from workbench.comparing.explaining import explanation_to_json
from workbench.export.run_export import run_to_json, runs_to_csv
from workbench.headless.diagnostics import say
from workbench.headless.exit_codes import ExitCode
from workbench.headless.native_output import NativeLog
from workbench.headless.output import (
    print_document,
    print_json,
    print_line,
    print_text,
    write_text,
)
from workbench.runs.event_json import to_line
from workbench.runs.run_store import StoredRun
from workbench.services.comparison import compared, explained
from workbench.services.recorded_runs import find
from workbench.services.refused import Refused
from workbench.views.comparison import comparison_document
from workbench.views.explanation import explanation_document
from workbench.views.run import run_document


def _show(args: argparse.Namespace) -> int:
    run = find(args.run_id)
    if args.json:
        print_json(run_to_json(run))
    else:
        print_document(run_document(run), ascii_only=args.ascii)
    return ExitCode.DONE


def _compare(args: argparse.Namespace) -> int:
    runs = [find(name) for name in args.runs]
    comparison = compared(runs)
    explanation = explained(runs) if args.explain else None
    if args.json:
        print_json(comparison_to_json(comparison))
    else:
        print_document(comparison_document(comparison), ascii_only=args.ascii)
    if explanation is not None and args.json:
        print_json(explanation_to_json(runs[0], runs[1], explanation))
    elif explanation is not None:
        print_line()
        ids = (run.run_id for run in runs)
        document = explanation_document(explanation, *ids)
        print_document(document, ascii_only=args.ascii)
    return ExitCode.DONE


def _export(args: argparse.Namespace) -> int:
    runs = [find(name) for name in args.runs]
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
        raise Refused("is missing for tensorboard", hint, "--output")
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
