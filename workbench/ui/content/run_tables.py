"""The run's progress line, its epochs beside the document's, and its log."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from textual.content import Content

from ipu_runtime.plan.quantities import duration, microseconds
from ipu_runtime.reports.document import (
    BAD,
    GOOD,
    HEADING,
    MUTED,
    WARN,
    Column,
    Row,
    Section,
    Table,
)
from workbench.experiment.printed_figures import PrintedFigures
from workbench.instances.instance_spread import slowest, spread_words
from workbench.runs.events import InstanceState, RunStatus
from workbench.runs.run_view import RunView
from workbench.runs.verdict import verdict
from workbench.ui.content.run_words import SYMBOLS
from workbench.ui.content.script_run import script_next
from workbench.views.cells import bar, cell_width, fit, wrapped
from workbench.views.content import app_style, line, lines, section_rows
from workbench.views.epochs import epochs_section

_NEXT = {
    RunStatus.FINISHED: "next: space marks it for comparison, a runs it again",
    RunStatus.STOPPED: "next: r resumes it",
    RunStatus.KILLED: "its process is gone; r resumes it",
    RunStatus.DAMAGED: "next: D deletes it",
    RunStatus.FAILED: "next: f opens this experiment in the form, l shows the log",
}


def progress_line(monitor: RunView, width: int) -> Content:
    """Return where the run stands, in columns that do not move."""
    sign, style = SYMBOLS[monitor.status]
    progress = monitor.progress
    if progress is None:
        middle = f"  {monitor.activity}" if monitor.live else ""
        return line(
            (f" {monitor.preset}", "bold"),
            f"{middle}  ",
            (f"{sign} {monitor.status.value}", style),
        )
    digits = len(str(progress.steps))
    left = monitor.seconds_left
    time_left = f"{duration(left)} left" if left is not None else ""
    done = f" {progress.step:>{digits}}/{progress.steps}"
    head = f" {monitor.preset}  epoch {progress.epoch}/{monitor.epochs_planned} "
    if not progress.steps:
        # Only the script knows how often it runs a program of its own.
        done, head = f" {progress.step} executions", f" {monitor.preset}  "
    tail = f"{done}  {time_left:<14} "
    state = f"{sign} {monitor.status.value}"
    if monitor.live and monitor.activity != "training":
        tail = f"{done}  {monitor.activity:<14} "
    space = max(6, width - cell_width(head) - len(tail) - len(state) - 2)
    filled = bar(monitor.fraction, space)
    return line(
        (head, "bold"),
        (filled.replace(" ", "░"), "$primary"),
        tail,
        (state, style),
    )


def verdict_lines(
    monitor: RunView,
    printed: PrintedFigures,
    remedy: Mapping[str, Any],
    width: int,
) -> Content:
    """Return what came of the run and what to do next; empty while it is live."""
    if monitor.live:
        return Content()
    bad = monitor.status in (RunStatus.FAILED, RunStatus.KILLED, RunStatus.DAMAGED)
    style = BAD if bad else GOOD
    style = WARN if monitor.status is RunStatus.STOPPED else style
    text = wrapped(verdict(monitor, printed), width - 2)
    rows = [line((f" {row}", style)) for row in text[:3]]
    following = _NEXT.get(monitor.status, "")
    if monitor.status is RunStatus.FAILED and monitor.instances:
        following = "next: r resumes it, l shows the log of every instance"
    for path, value in remedy.items():
        following = f"next: f opens this experiment with {path} {value:g}"
    if monitor.script:
        following = script_next(monitor)
    return lines(*rows, line((f" {following}", MUTED)))


def epoch_table(
    monitor: RunView, printed: PrintedFigures, width: int, height: int
) -> Content:
    """Return one row per epoch, the document's row below each; then the instances."""
    style, below = app_style(width), list[Content]()
    if monitor.instances:
        below = [line(""), *section_rows(_instances(monitor.instances), style)]
    room = height - len(below)
    epochs = epochs_section(monitor.epochs, monitor.evaluation, printed, room)
    return lines(*section_rows(replace(epochs, heading=""), style), *below)


def log_lines(monitor: RunView, most: int) -> Content:
    """Return the newest messages."""
    rows = []
    for item in monitor.log[-most:]:
        clock = time.strftime("%H:%M:%S", time.localtime(item.at)) if item.at else ""
        rows.append(line((f" {clock} " if clock else " ", MUTED), item.text))
    return lines(*rows) if rows else line((" no messages yet", MUTED))


def empty_run() -> Content:
    """Return what stands there before the first run."""
    return lines(
        line((" No run yet", HEADING)),
        line((" F5 starts the experiment: curves of loss, accuracy and time", MUTED)),
        line((" grow here, with the epochs beside the document's own figures.", MUTED)),
    )


def instances_line(states: Sequence[InstanceState], width: int) -> Content:
    """Return all of them in one line."""
    return line((f" {fit(spread_words(states), max(0, width - 2))}", MUTED))


def _instances(states: Sequence[InstanceState]) -> Section:
    """Return a row for each: how far it is, how long a batch takes, where it runs."""
    last = slowest(states)
    rows = []
    for index, state in enumerate(states):
        times = state.host_ms_per_batch, state.cpu_ms_per_batch
        shown = (microseconds(time * 1e3) if time else "-" for time in times)
        apart = index == last and state.host_step_ms and len(states) > 1
        cells = (str(index), str(state.step), *shown, state.host, str(state.pid))
        rows.append(Row(cells, WARN if apart else ""))
    columns = (
        Column(),
        Column("step", right=True),
        Column("measured", right=True),
        Column("CPU", right=True),
        Column("host", least=8),
        Column("pid"),
    )
    table = Table(columns, tuple(rows))
    return Section("instances, times per batch", (table,))
