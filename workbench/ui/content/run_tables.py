"""The run's progress line, its epochs beside the document's, and its log."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from textual.content import Content

from ipu_runtime.plan.quantities import count, duration, four_decimals, microseconds
from ipu_runtime.reports.document import BAD, GOOD, HEADING, MARK, MUTED, WARN
from workbench.experiment.experiment_spec import Figure
from workbench.experiment.printed_figures import PrintedFigures
from workbench.runs.events import EpochEnded, Evaluated, RunStatus
from workbench.runs.run_monitor import RunMonitor
from workbench.runs.verdict import verdict
from workbench.ui.content.run_words import SYMBOLS
from workbench.ui.content.script_run import script_next
from workbench.views.cells import bar, cell_width, wrapped
from workbench.views.content import line, lines

_WITH_RATES = 66
"""Columns from which an epoch has its throughput too."""
_NEXT = {
    RunStatus.FINISHED: "next: space marks it for comparison, a runs it again",
    RunStatus.STOPPED: "next: r resumes it",
    RunStatus.KILLED: "its process is gone; r resumes it",
    RunStatus.DAMAGED: "next: D deletes it",
    RunStatus.FAILED: "next: f opens this experiment in the form, l shows the log",
}


def progress_line(monitor: RunMonitor, width: int) -> Content:
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
    monitor: RunMonitor,
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
    monitor: RunMonitor, printed: PrintedFigures, width: int, most: int
) -> Content:
    """Return one row per epoch, the document's row below each; times per batch.

    What may not be compared is left out, and the fields that are the reason are named.
    """
    wide = width >= _WITH_RATES
    heading = f"{'epoch':<8}{'loss':>7}{'accuracy':>9}{'measured':>9}{'modelled':>9}"
    rates = f"{'samples/s':>12}{'modelled':>9}" if wide else ""
    rows = [line((heading + rates, MUTED))]
    by_epoch = {item.epoch: item for item in printed.comparable}
    body: list[Content] = []
    for epoch in monitor.epochs:
        body.append(
            line(
                f"{epoch.epoch:<8}{_reached(epoch)}"
                f"{_time(epoch.host_ms_per_batch * 1e3)}{_time(epoch.ipu_us_per_batch)}"
                f"{_rates(epoch) if wide else ''}"
            )
        )
        if epoch.epoch in by_epoch:
            body.append(_printed(by_epoch[epoch.epoch]))
    if not body:
        body = [line(("rows come with the end of an epoch", MUTED))]
        body += [_printed(item) for item in printed.comparable[:3]]
    why_not: list[Content] = []
    if printed.why_not:
        why_not = [line((row, WARN)) for row in wrapped(printed.why_not, width)]
    rows += body[-max(1, most - 2 - len(why_not)) :]
    if monitor.evaluation is not None:
        rows.append(line((f"{'test':<8}{_reached(monitor.evaluation)}", MARK)))
    return lines(*rows, *why_not)


def _time(us: float) -> str:
    return f"{microseconds(us) if us else '-':>9}"


def _rates(epoch: EpochEnded) -> str:
    measured, modelled = epoch.host_samples_per_second, epoch.samples_per_second
    return (
        f"{count(measured) if measured else '-':>12}"
        f"{count(modelled) if modelled else '-':>9}"
    )


def _reached(item: EpochEnded | Evaluated | Figure) -> str:
    return f"{four_decimals(item.loss):>7}{four_decimals(item.accuracy):>9}"


def _printed(item: Figure) -> Content:
    printed = "" if item.step_us is None else microseconds(item.step_us)
    return line((f"{'printed':<8}{_reached(item)}{printed:>18}", MUTED))


def log_lines(monitor: RunMonitor, most: int) -> Content:
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
