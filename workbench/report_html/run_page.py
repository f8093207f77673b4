"""The page as a whole: which parts it has, and in which order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ipu_runtime.plan.plain_data import plain
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.quantities import count, duration, four_decimals, microseconds
from ipu_runtime.reports.markup import Html, joined, page, section, table, tag, tiles
from ipu_runtime.reports.plan_parts import plan_parts
from workbench.comparing.outcome import outcome_of
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.field_differences import changed_fields, flatten
from workbench.experiment.preset_store import PresetError, load_preset
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.validation import validate
from workbench.planning.experiment_plan import plan_experiment
from workbench.report_html.curves import curves_part, figures_part
from workbench.report_html.script_page import script_page
from workbench.runs.events import RunStatus
from workbench.runs.run_store import StoredRun

FOOTER = (
    "Measured figures were taken on the machine that ran this. Modelled figures come "
    "from arithmetic about the device and were not measured on one. Made by "
    "ipu-workbench; this page needs no network."
)


def report_page(run: StoredRun) -> str:
    """Return a run as the text of an HTML file."""
    if run.script:
        return script_page(run, FOOTER)
    spec, _ = validate(run.tables)
    plan = plan_experiment(spec) if spec else None
    experiment = run.tables.get("experiment", {})
    title = str(experiment.get("title") or run.preset or run.run_id)
    parts = [
        tag("h1", title),
        tag("p", _subtitle(run), class_="faint"),
        _message(run),
        _numbers(run, plan),
        curves_part(run),
        figures_part(run, spec, plan),
        *_plan_or_reason(spec, plan),
        _configuration(run),
    ]
    return page(f"{title}: run {run.run_id}", parts, FOOTER)


def _subtitle(run: StoredRun) -> str:
    seed = run.tables.get("experiment", {}).get("seed", 0)
    began = run.created.replace("T", " ").replace("+00:00", " UTC")
    group = f", group {run.group}" if run.group else ""
    return (
        f"Run {run.run_id} of {run.preset}{group}; {run.status.value}; seed {seed}; "
        f"begun {began}"
    )


def _message(run: StoredRun) -> Html:
    if not run.message:
        return Html("")
    failed = run.status in (RunStatus.FAILED, RunStatus.KILLED)
    return tag("p", run.message, class_="bad" if failed else "faint")


def _numbers(run: StoredRun, plan: Plan | None) -> Html:
    known = outcome_of(run)
    shown: list[tuple[str, str]] = []
    for key, name in (
        ("loss_last", "loss, last epoch"),
        ("accuracy_last", "accuracy, last epoch"),
        ("test_loss", "test loss"),
        ("test_accuracy", "test accuracy"),
    ):
        if key in known:
            shown.append((name, four_decimals(known[key])))
    if plan and plan.step:
        shown.append(("per batch, modelled", microseconds(plan.ipu_us_per_batch)))
        shown.append(("samples/s, modelled", count(plan.samples_per_second)))
    if "host_ms_per_batch" in known:
        measured = microseconds(known["host_ms_per_batch"] * 1e3)
        shown.append(("per batch, measured here", measured))
    if "host_samples_per_second" in known:
        rate = count(known["host_samples_per_second"])
        shown.append(("samples/s, measured here", rate))
    if "seconds" in known:
        shown.append(("training, measured here", duration(known["seconds"])))
    return tiles(shown)


def _plan_or_reason(spec: ExperimentSpec | None, plan: Plan | None) -> list[Html]:
    if spec is None or plan is None:
        words = "The record's experiment is not valid for this version: no plan."
        return [section("Plan", tag("p", words, class_="bad"))]
    return plan_parts(plan)


def _configuration(run: StoredRun) -> Html:
    parts: list[Html] = []
    original = _preset_tables(run.preset)
    if original is None:
        words = f"The preset {run.preset} is not here, so changes cannot be shown."
        parts.append(tag("p", words, class_="faint"))
    elif changes := changed_fields(run.tables, original):
        rows = [
            (tag("code", item.path), _value(item.values[0]), _value(item.values[1]))
            for item in changes
        ]
        head = ("field", "this run", "preset")
        parts.append(table(head, rows, f"Changed from the preset {run.preset}"))
    else:
        parts.append(tag("p", f"Nothing is changed from the preset {run.preset}."))
    rows_of_all = [
        (tag("code", path), _value(value))
        for path, value in flatten(run.tables).items()
    ]
    everything = table(("field", "value"), rows_of_all)
    parts.append(tag("details", tag("summary", "All settings"), everything))
    parts.append(
        tag("p", tag("code", f"ipu-workbench report {run.run_id} --html FILE"))
    )
    return section("Configuration", joined(parts))


def _preset_tables(name: str) -> Mapping[str, Any] | None:
    try:
        spec, _ = validate(load_preset(name).tables)
    except PresetError:
        return None
    return spec_to_tables(spec) if spec else None


def _value(value: Any) -> Html:
    return tag("code", json.dumps(plain(value), ensure_ascii=False))
