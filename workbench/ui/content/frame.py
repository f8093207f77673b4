"""Words of the header and of the status bar."""

from __future__ import annotations

from textual.content import Content

from ipu_runtime.plan.quantities import duration
from ipu_runtime.reports.document import MARK, MUTED
from workbench.runs.events import RunStatus
from workbench.runs.run_view import RunView
from workbench.scripts.script_command import ScriptCommand
from workbench.services.runs import Runs
from workbench.services.session import Session
from workbench.ui.content.plan_summary import device_line
from workbench.ui.content.run_words import SYMBOLS
from workbench.views.content import line

_ROOM_FOR_DEVICE = 100


def header_left(session: Session, script: ScriptCommand | None = None) -> Content:
    """Return the app, the experiment and how much of it is changed, or the script."""
    if script is not None:
        laid_over = f"with {'  '.join(script.changes)}" if script.changes else ""
        return line(
            (" ipu-workbench ", "bold"), f"  {script.title}  ", (laid_over, MARK)
        )
    if not session.current_preset:
        return line((" ipu-workbench ", "bold"))
    changed = len(session.draft.changes())
    kept = ", reopened" if session.from_last_time else ""
    return line(
        (" ipu-workbench ", "bold"),
        f"  {session.current_preset} ",
        (f"•{changed} changed{kept}", MARK) if changed else "",
    )


def header_right(session: Session, runs: Runs, width: int) -> Content:
    """Return the modelled device and how the live run stands."""
    plan = session.known_plan
    wide = width >= _ROOM_FOR_DEVICE
    device = device_line(session.draft, plan) if plan is not None and wide else ""
    active = runs.active
    status = active.view.status if active else None
    waiting = len(runs.waiting)
    sign, style = SYMBOLS[status] if status else ("", MUTED)
    state = f"{sign} {status.value}" if status else "idle"
    queue = f" +{waiting} queued" if waiting else ""
    return line((f"{device}   ", MUTED), (f"{state}{queue} ", style))


def run_state(monitor: RunView) -> str:
    """Return where a live run stands, in a few words of steady width."""
    progress = monitor.progress
    in_call = monitor.script and progress is not None and progress.steps
    if progress is None or not (monitor.activity == "training" or in_call):
        return monitor.activity
    left = monitor.seconds_left
    time_left = f"   {duration(left)} left" if left is not None else ""
    paused = "paused   " if monitor.status is RunStatus.PAUSED else ""
    call = f"{progress.call}   " if progress.call else ""
    return (
        f"{paused}{call}epoch {progress.epoch}/{monitor.epochs_planned}   "
        f"step {progress.step:>{len(str(progress.steps))}}/{progress.steps}{time_left}"
    )


def next_hint(session: Session, area: str | None, has_fix: bool = False) -> str:
    """Return what to press next; `has_fix` is whether the area has something to set."""
    if session.known_problem:
        if has_fix:
            return "f takes the suggestion"
        return "" if area == "configure" else "2 shows what is wrong"
    return "F5 run"
