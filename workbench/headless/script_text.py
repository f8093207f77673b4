"""Runs of scripts for people to read."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from ipu_runtime.plan.advice import advise
from workbench.headless.output import print_line, print_table
from workbench.headless.runs_text import TIME_HEADS, print_curves
from workbench.runs.run_store import StoredRun
from workbench.runs.script_calls import calls_of, recorded_plan
from workbench.runs.series import RATES, TIMES, TRAINING
from workbench.views.layout import TextStyle
from workbench.views.plan_text import plan_lines

_MOST_CALLS = 40


def print_script(run: StoredRun) -> None:
    """Print what a script was, a row for each of its calls, plan and curves."""
    print_line(f"{run.run_id}  {run.preset}  {run.status.value}")
    if run.message:
        print_line(run.message)
    print_line(f"record {run.directory}")
    for name, value in run.script.items():
        if value:
            print_line(f"{name} {_words(value)}")
    for override in run.summary.get("overridden", ()):
        print_line(f"overridden {override}")
    calls = calls_of(run)
    if not calls:
        print_line("no fit, evaluate, predict, estimator call or compiled program")
        return
    print_line()
    head = ("call", "loss", "accuracy", *TIME_HEADS, "s", "plan")
    rows = [
        (
            call.title,
            call.last("loss"),
            call.last("accuracy"),
            *map(call.last, (*TIMES, *RATES)),
            call.ended.seconds if call.ended else None,
            call.began.plan or "-",
        )
        for call in calls[:_MOST_CALLS]
    ]
    print_table(head, rows)
    if len(calls) > _MOST_CALLS:
        print_line(f"and {len(calls) - _MOST_CALLS} more calls; export shows all")
    for call in calls[:_MOST_CALLS]:
        if not call.began.plan:
            print_line(f"{call.title}: {call.plan_words}")
    plan = recorded_plan(run)
    if plan is not None and plan.memory:
        print_line()
        utf = (sys.stdout.encoding or "").lower().startswith("utf")
        trains = any(call.began.kind in TRAINING for call in calls)
        title = f"Plan of the first program{' that trains' if trains else ''}"
        style = TextStyle(ascii_only=not utf)
        for line in plan_lines(plan, title, style, advice=advise(plan)):
            print_line(line)
    print_curves(run.series())


def _words(value: Any) -> str:
    return shlex.join(map(str, value)) if isinstance(value, list) else str(value)
