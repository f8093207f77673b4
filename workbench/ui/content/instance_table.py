"""What the Run area says of the processes that a run is shared out among."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from ipu_runtime.plan.quantities import microseconds
from ipu_runtime.reports.document import HEADING, MUTED, WARN
from workbench.instances.instance_spread import slowest, spread_words
from workbench.runs.events import InstanceState
from workbench.views.cells import fit
from workbench.views.content import line, lines


def instances_line(states: Sequence[InstanceState], width: int) -> Content:
    """Return all of them in one line."""
    return line((f" {fit(spread_words(states), max(0, width - 2))}", MUTED))


def instances_table(states: Sequence[InstanceState]) -> Content:
    """Return a row for each: how far it is, how long a batch takes, where it runs."""
    heading = f"{'':<4}{'step':>6}{'measured':>9}{'CPU':>9}  {fit('host', 8)} pid"
    rows = [
        line(""),
        line(("instances, times per batch", HEADING)),
        line((heading, MUTED)),
    ]
    last = slowest(states)
    for index, state in enumerate(states):
        text = (
            f"{index:<4}{state.step:>6}{_time(state.host_ms_per_batch):>9}"
            f"{_time(state.cpu_ms_per_batch):>9}  {fit(state.host, 8)} {state.pid}"
        )
        apart = index == last and state.host_step_ms and len(states) > 1
        rows.append(line((text, WARN if apart else "")))
    return lines(*rows)


def _time(milliseconds: float) -> str:
    return microseconds(milliseconds * 1e3) if milliseconds else "-"
