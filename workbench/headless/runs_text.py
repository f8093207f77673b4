"""Runs for people to read: tables, sentences and charts made of characters."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.compare import Comparison, MetricRow
from workbench.core.describe import METRIC_WORDS, describe
from workbench.core.events import EpochEnded, Evaluated, RunStatus
from workbench.core.field_differences import changed_fields
from workbench.core.plotting import Chart, Line, draw
from workbench.core.preset_store import PresetError, load_preset
from workbench.core.quantities import duration
from workbench.core.run_store import StoredRun
from workbench.core.series import RunSeries
from workbench.core.tables import spec_to_tables
from workbench.core.validation import validate
from workbench.headless.output import print_line, print_table

_MARKERS = ("●", "▲", "■", "◆")
_CHART_HEIGHT = 14
_CHARTED = ("loss", "accuracy")
_COLOUR_CODE = re.compile(r"\x1b\[[0-9;]*m")


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
    print_line(f"record {run.directory}")
    _print_changes(run)
    events = run.events()
    rows = [
        (e.epoch, e.loss, e.accuracy, e.host_step_ms, e.ipu_step_us, e.seconds)
        for e in events
        if isinstance(e, EpochEnded)
    ]
    if rows:
        print_line()
        print_table(
            ("epoch", "loss", "accuracy", "ms/step", "us/step modelled", "seconds"),
            rows,
        )
    for event in events:
        if isinstance(event, Evaluated):
            accuracy = (
                "" if event.accuracy is None else f", accuracy {event.accuracy:.4g}"
            )
            print_line(f"on test data: loss {event.loss:.4g}{accuracy}")
    series = run.series()
    for metric in _CHARTED:
        if series.curve(metric).ys:
            print_line()
            print_line(describe(metric, series.curve(metric)))
            _print_chart(metric, [series])
    if run.status in (RunStatus.KILLED, RunStatus.STOPPED):
        print_line()
        print_line(f"continue it with: ipu-workbench run --resume {run.run_id}")


def print_comparison(comparison: Comparison) -> None:
    """Print what differs between runs, and what came of it."""
    names = [run.run_id for run in comparison.runs]
    presets = ("preset", *(run.preset for run in comparison.runs))
    states = ("status", *(run.status.value for run in comparison.runs))
    fields = [
        (item.path, *(_setting(value) for value in item.values))
        for item in comparison.fields
        if item.path != "experiment.name"
    ]
    print_table(("", *names), [presets, states, *fields])
    if not fields:
        print_line("no setting differs")
    print_line()
    rows = [(row.name, *_figures(row)) for row in comparison.metrics]
    print_table(("", *names), rows)
    print_line("* best")
    for metric in _CHARTED:
        drawn = [s for s in comparison.series if s.curve(metric).ys]
        if drawn:
            legend = "  ".join(
                f"{_MARKERS[index % len(_MARKERS)]} {name}"
                for index, name in enumerate(names)
            )
            print_line()
            print_line(f"{METRIC_WORDS[metric].title} by epoch    {legend}")
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
    return f"{value:.0f}" if key == "epochs" else f"{value:.4g}"


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
    for line in _COLOUR_CODE.sub("", drawn).splitlines():
        print_line(line.rstrip())
