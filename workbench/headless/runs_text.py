"""Runs for people to read: tables, sentences and charts made of characters."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ipu_runtime.plan.quantities import duration, four_digits
from ipu_runtime.reports.plain_text import without_terminal_codes
from workbench.charts.plotting import Chart, Line, draw
from workbench.comparing.compare import Comparison, MetricRow
from workbench.comparing.model_words import model_words
from workbench.comparing.run_names import value_words
from workbench.experiment.field_differences import changed_fields
from workbench.experiment.preset_store import PresetError, load_preset
from workbench.experiment.tables import spec_to_tables
from workbench.experiment.validation import validate
from workbench.headless.output import print_line, print_table
from workbench.instances.instance_spread import spread_words
from workbench.runs.describe import METRIC_WORDS, describe, loss_and_accuracy
from workbench.runs.events import (
    Compiled,
    EpochEnded,
    Evaluated,
    InstancesSeen,
    RunStatus,
)
from workbench.runs.run_notes import notes_text, read_notes
from workbench.runs.run_store import StoredRun
from workbench.runs.series import RATES, TIMES, RunSeries

_MARKERS = ("●", "▲", "■", "◆", "+", "%")
_WHOLE = ("epochs", *RATES)
TIME_HEADS = (
    "ms/batch",
    "us/batch modelled",
    "samples/s",
    "samples/s modelled",
)
"""Of `TIMES` and `RATES`; what is not modelled is measured here."""
_CHART_HEIGHT = 14
_CHARTED = ("loss", "accuracy")


def print_run(run: StoredRun) -> None:
    """Print everything about a run."""
    title = run.tables.get("experiment", {}).get("title", "")
    print_line(f"{run.run_id}  {run.preset}  {run.status.value}")
    if title:
        print_line(title)
    if run.message:
        print_line(run.message)
    if run.group:
        print_line(f"group {run.group}")
    if said := notes_text(read_notes(run.directory)):
        print_line(f"notes {said}")
    print_line(f"record {run.directory}")
    _print_changes(run)
    events = run.events()
    for event in events:
        if isinstance(event, Compiled) and event.executor:
            print_line(f"{event.program} by {event.executor}")
    seen = [event for event in events if isinstance(event, InstancesSeen)]
    if seen:
        print_line(spread_words(seen[-1].instances))
    rows = [
        (
            e.epoch,
            e.loss,
            e.accuracy,
            *(getattr(e, name) or None for name in (*TIMES, *RATES)),
            e.seconds,
        )
        for e in events
        if isinstance(e, EpochEnded)
    ]
    if rows:
        print_line()
        print_table(
            ("epoch", "loss", "accuracy", *TIME_HEADS, "seconds"),
            rows,
        )
    for event in events:
        if isinstance(event, Evaluated):
            print_line(f"on test data: {loss_and_accuracy(event)}")
    print_curves(run.series())
    if run.status in (RunStatus.KILLED, RunStatus.STOPPED):
        print_line()
        print_line(f"continue it with: ipu-workbench run --resume {run.run_id}")


def print_curves(series: RunSeries) -> None:
    """Print the curves of a run, each with the sentence that reads it."""
    for metric in _CHARTED:
        if series.curve(metric).ys:
            print_line()
            print_line(describe(metric, series.curve(metric)))
            _print_chart(metric, [series])


def print_comparison(comparison: Comparison) -> None:
    """Print what came of runs, what was set differently, and their curves."""
    run_ids = [run.run_id for run in comparison.runs]
    rows = [("status", *(run.status.value for run in comparison.runs))]
    rows += [(row.name, *_figures(row)) for row in comparison.metrics]
    print_table(("", *run_ids), rows)
    print_line("* best")
    print_line()
    fields = [
        (item.path, *(value_words(item.path, value) for value in item.values))
        for item in comparison.settings
    ]
    if len({run.preset for run in comparison.runs}) > 1:
        fields.insert(0, ("preset", *(run.preset for run in comparison.runs)))
    if comparison.model_differs:
        fields.append(("model", *map(model_words, comparison.models)))
    if fields:
        print_table(("set differently", *run_ids), fields)
    else:
        print_line("no setting differs")
    for metric in _CHARTED:
        if any(series.curve(metric).ys for series in comparison.series):
            print_line()
            print_line(f"{METRIC_WORDS[metric].title} by epoch")
            for index, name in enumerate(comparison.names.names):
                print_line(f"  {_MARKERS[index % len(_MARKERS)]} {name}")
            _print_chart(metric, comparison.series)


def _figures(row: MetricRow) -> list[str]:
    shown = []
    for index, value in enumerate(row.values):
        text = "-" if value is None else _figure(row.key, value)
        shown.append(f"{text} *" if index == row.best_index else text)
    return shown


def _figure(key: str, value: float) -> str:
    if key == "seconds":
        return duration(value)
    return f"{value:,.0f}" if key in _WHOLE else four_digits(value)


def _print_changes(run: StoredRun) -> None:
    try:
        spec, _ = validate(load_preset(run.preset).tables)
    except PresetError:
        return
    if spec is None:
        return
    for change in changed_fields(run.tables, spec_to_tables(spec)):
        ours, preset = (_setting(value) for value in change.values)
        print_line(f"{change.path} = {ours} (preset: {preset})")


def _setting(value: Any) -> str:
    if isinstance(value, Mapping | list | bool) or value is None:
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = str(value) or '""'
    return text if len(text) <= 40 else f"{text[:37]}..."


def _print_chart(metric: str, series: Sequence[RunSeries]) -> None:
    """Draw curves in the width of the terminal; without colours off one."""
    several = len(series) > 1
    lines = tuple(
        Line(
            item.curve(metric),
            marker=_MARKERS[index % len(_MARKERS)] if several else "braille",
        )
        for index, item in enumerate(series)
        if item.curve(metric).ys
    )
    width = min(shutil.get_terminal_size((80, 24)).columns, 100)
    encoding = (sys.stdout.encoding or "").lower()
    plain = not encoding.startswith("utf")
    drawn = draw(Chart(lines, ascii_only=plain), width, _CHART_HEIGHT)
    for line in without_terminal_codes(drawn).splitlines():
        print_line(line.rstrip())
