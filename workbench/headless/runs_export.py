"""Writing runs for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ipu_runtime.plan.problem import Problem
from workbench.core.event_json import to_line
from workbench.core.run_export import run_to_json, runs_to_csv
from workbench.core.run_store import StoredRun
from workbench.headless.diagnostics import UsageError, say
from workbench.headless.output import print_text
from workbench.headless.written_file import write_text

FORMATS = ("csv", "json", "tensorboard")


def export_runs(runs: Sequence[StoredRun], kind: str, output: str | None) -> None:
    """Write the runs to a file, a directory or standard output."""
    if kind == "tensorboard":
        _export_event_files(runs, output)
        return
    if kind == "csv":
        text = runs_to_csv(runs)
    else:
        text = "".join(to_line(run_to_json(run)) for run in runs)
    if output is None:
        print_text(text)
    else:
        write_text(Path(output), text)


def _export_event_files(runs: Sequence[StoredRun], output: str | None) -> None:
    if output is None:
        hint = "name a directory"
        raise UsageError([Problem("--output", "is missing for tensorboard", hint)])
    # It loads TensorFlow, which takes seconds.
    from workbench.core.tensorboard_export import write_event_files

    for run in runs:
        write_event_files(run.events(), Path(output) / run.run_id)
    say(f"{len(runs)} written; look at them with: tensorboard --logdir {output}")
