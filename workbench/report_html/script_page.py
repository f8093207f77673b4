"""The page of a script: its calls, their curves, and a plan for each program."""

from __future__ import annotations

import json
import shlex

from ipu_runtime.plan.plain_data import plain
from ipu_runtime.plan.quantities import count, duration, four_decimals, microseconds
from ipu_runtime.reports.markup import Html, page, section, table, tag
from ipu_runtime.reports.plan_parts import plan_parts
from workbench.experiment.field_differences import flatten
from workbench.report_html.curves import charts, curves_part
from workbench.runs.events import RunStatus
from workbench.runs.run_store import StoredRun
from workbench.runs.script_calls import ScriptCall, calls_of, recorded_plan
from workbench.runs.series import TIMES

_MOST_CHARTED = 20
"""Of a script that calls more often, the table alone shows all."""
_UNKNOWN = "-"


def script_page(run: StoredRun, footer: str) -> str:
    """Return the run of a script as the text of an HTML file."""
    calls = calls_of(run)
    parts = [tag("h1", run.preset), tag("p", _subtitle(run), class_="faint")]
    if run.message:
        failed = run.status in (RunStatus.FAILED, RunStatus.KILLED)
        parts.append(tag("p", run.message, class_="bad" if failed else "faint"))
    parts += [_calls(calls), curves_part(run)]
    if len(calls) > 1:
        parts += [_curves_of(call) for call in calls[:_MOST_CHARTED]]
    parts += _plans(run, calls)
    parts.append(_settings(run))
    return page(f"{run.preset}: run {run.run_id}", parts, footer)


def _subtitle(run: StoredRun) -> str:
    arguments = run.script.get("arguments")
    words = [run.preset, *(map(str, arguments) if isinstance(arguments, list) else ())]
    began = run.created.replace("T", " ").replace("+00:00", " UTC")
    commit = str(run.script.get("commit", ""))
    at = f"; commit {commit[:12]}" if commit else ""
    status = run.status.value
    return f"Run {run.run_id} of {shlex.join(words)}; {status}{at}; begun {began}"


def _calls(calls: list[ScriptCall]) -> Html:
    if not calls:
        words = "The script made no call that runs a program."
        return section("Calls", tag("p", words, class_="faint"))
    head = ("call", "loss", "accuracy", "measured", "modelled", "samples/s", "took")
    words = "Times are per batch of data, over all replicas; samples/s are modelled."
    return section("Calls", table(head, [_row(call) for call in calls], words))


def _row(call: ScriptCall) -> tuple[str, ...]:
    measured, modelled = map(call.last, TIMES)
    return (
        call.title,
        four_decimals(call.last("loss"), _UNKNOWN),
        four_decimals(call.last("accuracy"), _UNKNOWN),
        microseconds(measured * 1e3) if measured is not None else _UNKNOWN,
        microseconds(modelled) if modelled is not None else _UNKNOWN,
        count(rate) if (rate := call.last("samples_per_second")) else _UNKNOWN,
        duration(call.ended.seconds) if call.ended else _UNKNOWN,
    )


def _curves_of(call: ScriptCall) -> Html:
    drawn = charts(call.series)
    if not drawn:
        return Html("")
    return section(f"Curves of {call.title}", *drawn)


def _plans(run: StoredRun, calls: list[ScriptCall]) -> list[Html]:
    """Return every plan once, under the calls that it belongs to."""
    parts: list[Html] = []
    by_file: dict[str, list[ScriptCall]] = {}
    for call in calls:
        by_file.setdefault(call.began.plan, []).append(call)
    for file, owners in list(by_file.items())[:_MOST_CHARTED]:
        names = ", ".join(call.title for call in owners[:5])
        names += f" and {len(owners) - 5} more" if len(owners) > 5 else ""
        plan = recorded_plan(run, file) if file else None
        if plan is not None:
            parts += [tag("h2", f"Program of {names}"), *plan_parts(plan)]
        else:
            lines = [tag("li", f"{call.title}: {call.plan_words}") for call in owners]
            parts.append(section("Programs without a plan", tag("ul", *lines)))
    return parts


def _settings(run: StoredRun) -> Html:
    rows = [
        (tag("code", path), tag("code", json.dumps(plain(value), ensure_ascii=False)))
        for path, value in flatten(run.tables).items()
    ]
    command = tag("p", tag("code", f"ipu-workbench report {run.run_id} --html FILE"))
    words = "Of the script, and of the first program that trains."
    return section("Settings", table(("field", "value"), rows, words), command)
