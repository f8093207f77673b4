"""What a script's record says of its calls, and of the plans of their programs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.request_json import request_from_json
from workbench.runs.events import CallBegan, CallEnded
from workbench.runs.run_store import MOST_PLAN_BYTES, StoredRun
from workbench.runs.series import RunSeries
from workbench.store_json import RecordError, load_json

_FILE = re.compile(r"plans/\d{1,6}\.json")
MAIN_PLAN = "plan.json"


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A call from its beginning to its end."""

    began: CallBegan
    ended: CallEnded | None
    """None if the script ended first, and for programs that a script runs itself."""
    series: RunSeries

    @property
    def title(self) -> str:
        """Kind, number and what it ran: `fit 1 of sequential`."""
        name = self.began.name
        return f"{self.began.call} of {name}" if name else self.began.call

    def last(self, metric: str) -> float | None:
        """Return the newest value of a metric."""
        evaluation = self.series.evaluation
        if evaluation is not None and metric in ("loss", "accuracy"):
            value: float | None = getattr(evaluation, metric)
            return value
        curve = self.series.epochs.get(metric) or self.series.steps.get(metric)
        return curve.last if curve else None

    @property
    def plan_words(self) -> str:
        """Say in a few words whether the program has a plan."""
        if self.began.plan:
            return "planned"
        return f"no plan: {self.began.reason or 'the record has none'}"


def calls_of(run: StoredRun) -> list[ScriptCall]:
    """Return the calls of a script, in order; an experiment has none."""
    events, series = run.events(), run.series()
    ended = {item.call: item for item in events if isinstance(item, CallEnded)}
    return [
        ScriptCall(item, ended.get(item.call), series.calls[item.call])
        for item in events
        if isinstance(item, CallBegan)
    ]


def recorded_request(run: StoredRun, file: str = MAIN_PLAN) -> PlanRequest | None:
    """Return what a script's program was planned from; None if it has no plan."""
    if file != MAIN_PLAN and not _FILE.fullmatch(file):
        return None
    try:
        content = load_json(run.directory / file, MOST_PLAN_BYTES)
        return request_from_json(content["request"])
    except (RecordError, ValueError, KeyError, TypeError, RecursionError):
        return None


def recorded_plan(run: StoredRun, file: str = MAIN_PLAN) -> Plan | None:
    """Plan once more what a script's program was planned as; None if it has none."""
    request = recorded_request(run, file)
    try:
        return make_plan(request) if request else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
