"""The run's progress line, its epochs beside the document's, and its log."""

from __future__ import annotations

import time
from collections.abc import Sequence

from textual.content import Content

from workbench.core.events import RunStatus
from workbench.core.experiment_spec import Figure
from workbench.core.quantities import duration, microseconds
from workbench.core.run_monitor import RunMonitor
from workbench.core.verdict import verdict
from workbench.ui.content.pieces import (
    BAD,
    GOOD,
    HEADING,
    MARK,
    MUTED,
    WARN,
    bar,
    line,
    lines,
    wrapped,
)
from workbench.ui.content.run_words import SYMBOLS

_NEXT = {
    RunStatus.FINISHED: "next: space marks it for comparison, a runs it again",
    RunStatus.STOPPED: "next: r resumes it",
    RunStatus.KILLED: "its process is gone; r resumes it",
    RunStatus.FAILED: "next: 2 changes the experiment, l shows the log",
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
    tail = f" {progress.step:>{digits}}/{progress.steps}  {time_left:<14} "
    head = f" {monitor.preset}  epoch {progress.epoch}/{monitor.epochs_planned} "
    state = f"{sign} {monitor.status.value}"
    if monitor.live and monitor.activity != "training":
        tail = f" {progress.step:>{digits}}/{progress.steps}  {monitor.activity:<14} "
    space = max(6, width - len(head) - len(tail) - len(state) - 2)
    filled = bar(monitor.fraction, space)
    return line(
        (head, "bold"),
        (filled.replace(" ", "░"), "$primary"),
        tail,
        (state, style),
    )


def verdict_lines(
    monitor: RunMonitor, figures: Sequence[Figure], width: int
) -> Content:
    """Return what came of the run and what to do next; empty while it is live."""
    if monitor.live:
        return Content()
    style = BAD if monitor.status in (RunStatus.FAILED, RunStatus.KILLED) else GOOD
    style = WARN if monitor.status is RunStatus.STOPPED else style
    text = wrapped(verdict(monitor, figures), width - 2)
    rows = [line((f" {row}", style)) for row in text[:3]]
    return lines(*rows, line((f" {_NEXT.get(monitor.status, '')}", MUTED)))


def epoch_table(monitor: RunMonitor, figures: Sequence[Figure], most: int) -> Content:
    """Return one row per epoch, the document's row below each."""
    heading = f"{'epoch':<8}{'loss':>7}{'accuracy':>9}{'measured':>9}{'modelled':>9}"
    rows = [line((heading, MUTED))]
    by_epoch = {item.epoch: item for item in figures}
    body: list[Content] = []
    for epoch in monitor.epochs:
        accuracy = "" if epoch.accuracy is None else f"{epoch.accuracy:.4f}"
        body.append(
            line(
                f"{epoch.epoch:<8}{epoch.loss:>7.4f}{accuracy:>9}"
                f"{microseconds(epoch.host_step_ms * 1000):>9}"
                f"{microseconds(epoch.ipu_step_us):>9}"
            )
        )
        if epoch.epoch in by_epoch:
            body.append(_printed(by_epoch[epoch.epoch]))
    if not body:
        body = [line(("rows come with the end of an epoch", MUTED))]
        body += [_printed(item) for item in figures[:3]]
    rows += body[-max(1, most - 2) :]
    if monitor.evaluation is not None:
        test = monitor.evaluation
        accuracy = "" if test.accuracy is None else f"{test.accuracy:.4f}"
        rows.append(line((f"{'test':<8}{test.loss:>7.4f}{accuracy:>9}", MARK)))
    return lines(*rows)


def _printed(item: Figure) -> Content:
    loss = "" if item.loss is None else f"{item.loss:.4f}"
    accuracy = "" if item.accuracy is None else f"{item.accuracy:.4f}"
    step = "" if item.step_us is None else microseconds(item.step_us)
    return line((f"{'printed':<8}{loss:>7}{accuracy:>9}{step:>18}", MUTED))


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
        line(
            (" F5 starts the experiment: curves of loss, accuracy and step time", MUTED)
        ),
        line((" grow here, with the epochs beside the document's own figures.", MUTED)),
    )
