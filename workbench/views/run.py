"""A run as a document: facts, changes, epochs or calls, curves, plans, settings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ipu_runtime.plan.advice import advise
from ipu_runtime.plan.plain_data import plain
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import walk_memory
from ipu_runtime.plan.quantities import count, duration, four_decimals, microseconds
from ipu_runtime.reports.document import (
    BAD,
    MUTED,
    Column,
    Document,
    Line,
    Note,
    Part,
    Row,
    Section,
    Span,
    Table,
    Tiles,
)
from ipu_runtime.reports.document_html import document_page
from ipu_runtime.reports.memory_sections import walk_section
from ipu_runtime.reports.plan_document import plan_document
from workbench.comparing.outcome import outcome_of
from workbench.experiment.field_differences import differences, flatten
from workbench.experiment.preset_store import PresetError, load_preset
from workbench.experiment.printed_figures import printed_figures
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.validation import validate
from workbench.instances.instance_spread import spread_words
from workbench.planning.experiment_plan import plan_experiment
from workbench.runs.events import Compiled, EpochEnded, InstancesSeen, RunStatus
from workbench.runs.run_notes import notes_text, read_notes
from workbench.runs.run_store import StoredRun
from workbench.runs.script_calls import ScriptCall, calls_of, recorded_plan
from workbench.runs.series import RATES, TIMES, TRAINING
from workbench.views.curves import curves_section
from workbench.views.epochs import (
    RESULT_COLUMNS,
    UNITS,
    epochs_section,
    result_cells,
)

_FOOTER = (
    "Measured figures were taken on the machine that ran this. Modelled figures come "
    "from arithmetic about the device and were not measured on one. Made by "
    "ipu-workbench; this page needs no network."
)
_MOST_CALLS = 40
_MOST_CHARTED = 20
"""Of a script that calls more often, the table alone shows all."""


def run_document(run: StoredRun) -> Document:
    """Return what came of a run, as `runs show` prints it."""
    if run.script:
        return _script_document(run)
    epochs = [event for event in run.events() if isinstance(event, EpochEnded)]
    printed = printed_figures(run.tables, run.preset)
    series = run.series()
    sections = [_facts(run), changes_section(run)]
    if epochs:
        sections.append(epochs_section(epochs, series.evaluation, printed))
    sections.append(curves_section(series))
    if run.status in (RunStatus.KILLED, RunStatus.STOPPED):
        text = f"continue it with: ipu-workbench run --resume {run.run_id}"
        sections.append(Section("", (Line((Span(text),)),)))
    title = str(run.tables.get("experiment", {}).get("title", ""))
    return _document(run, title, sections)


def report_page(run: StoredRun) -> str:
    """Return a run with its plans and all its settings as the text of an HTML file."""
    document = report_document(run)
    return document_page(document, _FOOTER, f"{run.preset}: run {run.run_id}")


def report_document(run: StoredRun) -> Document:
    """Return everything about a run."""
    if run.script:
        return _document(run, "", [*_script_report(run), _settings(run)])
    document = run_document(run)
    spec, _ = validate(run.tables)
    plan = plan_experiment(spec) if spec else None
    facts, *sections = document.sections
    sections = [facts, Section("", (_tiles(run, plan),)), *sections]
    if plan is None:
        text = "The record's experiment is not valid for this version: no plan."
        sections.append(Section("Plan", (Note(text, BAD),)))
    else:
        sections += _plan_sections(plan, "Plan")
    return _document(run, document.subtitle, [*sections, _settings(run)])


def _document(run: StoredRun, title: str, sections: Sequence[Section]) -> Document:
    shown = tuple(section for section in sections if section.parts)
    heading = f"{run.run_id}  {run.preset}  {run.status.value}"
    return Document(heading, shown, title)


def _facts(run: StoredRun) -> Section:
    """Return what is known of a run besides its figures."""
    failed = run.status in (RunStatus.FAILED, RunStatus.KILLED)
    parts: list[Part] = []
    if run.message:
        parts.append(Note(run.message, BAD if failed else MUTED, whole_words=True))
    facts = {
        "group": run.group,
        "notes": notes_text(read_notes(run.directory)),
        "begun": run.created.replace("T", " ").replace("+00:00", " UTC"),
        "record": str(run.directory),
        **{name: _argument(value) for name, value in run.script.items() if value},
    }
    if not run.script and "seed" in run.tables.get("experiment", {}):
        facts["seed"] = str(run.tables["experiment"]["seed"])
        facts["source"] = str(run.tables["experiment"].get("source", ""))
    # Paths and commands are not broken into lines: they are copied.
    parts += [
        Line((Span(f"{name} ", MUTED), Span(text)))
        for name, text in facts.items()
        if text
    ]
    parts += [
        Line((Span("overridden ", MUTED), Span(str(item))))
        for item in run.summary.get("overridden", ())
    ]
    events = run.events()
    parts += [
        Note(f"{event.program} by {event.executor}")
        for event in events
        if isinstance(event, Compiled) and event.executor and not run.script
    ]
    seen = [event for event in events if isinstance(event, InstancesSeen)]
    if seen:
        parts.append(Note(spread_words(seen[-1].instances)))
    return Section("", tuple(parts))


def _argument(value: Any) -> str:
    return shlex.join(map(str, value)) if isinstance(value, list) else str(value)


def changes_section(run: StoredRun) -> Section:
    """Return what a run has otherwise than its preset."""
    original = _preset_tables(run.preset)
    if original is None:
        words = f"The preset {run.preset} is not here, so changes cannot be shown."
        return Section("", (Note(words, MUTED),))
    rows = []
    for item in differences(run.tables, original):
        ours, preset = map(_setting, item.values)
        rows.append(Row((item.path, ours, Span(preset, MUTED))))
    columns = Column("field"), Column("this run", least=16), Column("preset", least=16)
    if not rows:
        return Section("", ())
    table = Table(columns, tuple(rows))
    return Section(f"Changed from the preset {run.preset}", (table,))


def _preset_tables(name: str) -> Mapping[str, Any] | None:
    try:
        spec, _ = validate(load_preset(name).tables)
    except PresetError:
        return None
    return spec_to_tables(spec) if spec else None


def _setting(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    return json.dumps(plain(value), ensure_ascii=False)


def _settings(run: StoredRun) -> Section:
    rows = tuple(
        Row((path, _setting(value))) for path, value in flatten(run.tables).items()
    )
    columns = Column("field"), Column("value", least=16)
    of_first = "of the script, and of the first program that trains"
    aside = of_first if run.script else ""
    command = Line((Span(f"ipu-workbench report {run.run_id} --html FILE"),))
    parts = Table(columns, rows), command
    return Section("All settings", parts, aside, folded=True)


def _tiles(run: StoredRun, plan: Plan | None) -> Tiles:
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
    return Tiles(tuple(shown))


def _plan_sections(plan: Plan, title: str) -> list[Section]:
    """Return a plan as sections of a report, its memory over time included."""
    if plan.not_modelled:
        return list(plan_document(plan, title).sections)
    document = plan_document(plan, title, advice=advise(plan))
    head = Section(title, (Note(document.subtitle, MUTED),))
    return [head, *document.sections, walk_section(walk_memory(plan))]


def _script_document(run: StoredRun) -> Document:
    """Return what a script was, a row for each of its calls, its plan and curves."""
    calls = calls_of(run)
    sections = [_facts(run), _calls(calls)]
    plan = recorded_plan(run)
    if plan is not None and plan.memory:
        trains = any(call.began.kind in TRAINING for call in calls)
        title = f"Plan of the first program{' that trains' if trains else ''}"
        sections += _plan_sections(plan, title)[:-1]
    sections.append(curves_section(run.series()))
    return _document(run, "", sections)


def _script_report(run: StoredRun) -> list[Section]:
    """Return a script with the curves of its calls, and every plan once."""
    calls = calls_of(run)
    sections = [_facts(run), _calls(calls), curves_section(run.series())]
    if len(calls) > 1:
        sections += [
            curves_section(call.series, f"Curves of {call.title}")
            for call in calls[:_MOST_CHARTED]
        ]
    by_file: dict[str, list[ScriptCall]] = {}
    for call in calls:
        by_file.setdefault(call.began.plan, []).append(call)
    for file, owners in list(by_file.items())[:_MOST_CHARTED]:
        names = ", ".join(call.title for call in owners[:5])
        names += f" and {len(owners) - 5} more" if len(owners) > 5 else ""
        plan = recorded_plan(run, file) if file else None
        if plan is not None:
            sections += _plan_sections(plan, f"Program of {names}")
    return sections


def _calls(calls: Sequence[ScriptCall]) -> Section:
    if not calls:
        words = "no fit, evaluate, predict, estimator call or compiled program"
        return Section("Calls", (Note(words),))
    rows = []
    for call in calls:
        seconds = call.ended.seconds if call.ended else None
        results = call.last("loss"), call.last("accuracy")
        times, rates = (tuple(map(call.last, names)) for names in (TIMES, RATES))
        cells = result_cells(results, times, rates, seconds)
        rows.append(Row((call.title, *cells, call.began.plan or "-")))
    columns = (Column("call"), *RESULT_COLUMNS, Column("plan", rank=3))
    table = Table(columns, tuple(rows), most=_MOST_CALLS, noun="call")
    unplanned = (
        Note(f"{call.title}: {call.plan_words}")
        for call in calls[:_MOST_CALLS]
        if not call.began.plan
    )
    return Section("Calls", (table, *unplanned), UNITS)
