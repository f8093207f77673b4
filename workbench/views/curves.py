"""Curves of runs as charts: their names, units, and the sentence that reads each."""

from __future__ import annotations

from ipu_runtime.reports.document import Chart, Section, Series
from workbench.charts.points import thin
from workbench.runs.describe import METRIC_WORDS, describe
from workbench.runs.series import Curve, RunSeries

_MOST_POINTS = 800
_CHARTS = {"loss": 0, "accuracy": 2, "host_ms_per_batch": 4}
"""Metrics that are charted, each with its colour."""


def curves_section(series: RunSeries, title: str = "Curves") -> Section:
    """Return the curves of a run or of one of its calls."""
    charts = (_chart(metric, series) for metric in _CHARTS if series.curve(metric).ys)
    return Section(title, tuple(charts))


def metric_title(metric: str) -> str:
    """Return the name of a metric with its unit."""
    words = METRIC_WORDS[metric]
    return f"{words.title}, {words.unit}" if words.unit else words.title


def _chart(metric: str, series: RunSeries) -> Chart:
    fine, coarse = series.curve(metric), series.epochs.get(metric, Curve())
    words, colour = METRIC_WORDS[metric], _CHARTS[metric]
    drawn = [_series(words.title, fine, colour)]
    if coarse.ys:
        drawn.append(_series(f"{words.title} of the epoch", coarse, colour, dots=True))
    return Chart(
        metric_title(metric),
        fine.unit,
        tuple(drawn),
        describe(metric, fine),
        zero=metric == "host_ms_per_batch",
    )


def _series(name: str, curve: Curve, colour: int, *, dots: bool = False) -> Series:
    shown = thin(curve, _MOST_POINTS)
    return Series(name, shown.xs, shown.ys, colour, dots=dots)


def compared_charts(series: tuple[RunSeries, ...], names: tuple[str, ...]) -> Section:
    """Return the curves of several runs over each other."""
    charts = []
    for metric in ("loss", "accuracy"):
        curves = [item.curve(metric) for item in series]
        drawn = tuple(
            _series(name, curve, colour)
            for colour, (name, curve) in enumerate(zip(names, curves, strict=True))
            if curve.ys
        )
        if drawn:
            title = metric_title(metric)
            reading = f"{title} by {next(c.unit for c in curves if c.ys)}"
            charts.append(Chart(title, "epoch", drawn, reading))
    return Section("Curves", tuple(charts))
