"""Words of the header and of the status bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from workbench.core.events import RunStatus
from workbench.core.quantities import duration
from workbench.core.run_monitor import RunMonitor
from workbench.ui.content.pieces import BAD, MARK, MUTED, line
from workbench.ui.content.plan_summary import device_line
from workbench.ui.content.run_words import SYMBOLS
from workbench.ui.messages import Said

if TYPE_CHECKING:
    from workbench.ui.app import WorkbenchApp

_ROOM_FOR_DEVICE = 100


def header_left(app: WorkbenchApp) -> Content:
    """Return the app, the experiment and how much of it is changed."""
    if not app.current_preset:
        return line((" ipu-workbench ", "bold"))
    changed = len(app.draft.changed())
    return line(
        (" ipu-workbench ", "bold"),
        f"  {app.current_preset} ",
        (f"•{changed} changed", MARK) if changed else "",
    )


def header_right(app: WorkbenchApp) -> Content:
    """Return the modelled device and how the live run stands."""
    plan = app.known_plan
    wide = app.size.width >= _ROOM_FOR_DEVICE
    device = device_line(app.draft, plan) if plan is not None and wide else ""
    active = app.board.active
    status = active.monitor.status if active else None
    waiting = len(app.board.waiting)
    sign, style = SYMBOLS[status] if status else ("", MUTED)
    state = f"{sign} {status.value}" if status else "idle"
    queue = f" +{waiting} queued" if waiting else ""
    return line((f"{device}   ", MUTED), (f"{state}{queue} ", style))


def status_line(app: WorkbenchApp, said: Said | None) -> tuple[Content, Content]:
    """Return what was last done, and what goes on."""
    active = app.board.active
    right = run_state(active.monitor) if active else next_hint(app)
    frozen = ("frozen  ", MARK) if app.frozen else ""
    left = (f" {said.text}", BAD if said.bad else "") if said else ""
    return line(left), line(frozen, (f"{right} ", MUTED))


def run_state(monitor: RunMonitor) -> str:
    """Return where a live run stands, in a few words of steady width."""
    progress = monitor.progress
    if progress is None or monitor.activity != "training":
        return monitor.activity
    left = monitor.seconds_left
    time_left = f"   {duration(left)} left" if left is not None else ""
    paused = "paused   " if monitor.status is RunStatus.PAUSED else ""
    return (
        f"{paused}epoch {progress.epoch}/{monitor.epochs_planned}   "
        f"step {progress.step:>{len(str(progress.steps))}}/{progress.steps}{time_left}"
    )


def next_hint(app: WorkbenchApp) -> str:
    """Return what to press next."""
    if app.current_preset and app.known_problem:
        mends = app.area_name == "configure"
        return "f takes the suggestion" if mends else "2 shows what is wrong"
    return "F5 run"
