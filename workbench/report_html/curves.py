"""What was measured in the run: its curves, and the document's figures beside ours."""

from __future__ import annotations

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.quantities import four_decimals, microseconds
from ipu_runtime.reports.line_chart import PlottedLine, line_chart
from ipu_runtime.reports.markup import Html, figure, section, table, tag
from workbench.charts.thinning import thin
from workbench.experiment.experiment_spec import ExperimentSpec, Figure
from workbench.experiment.printed_figures import printed_figures
from workbench.runs.describe import METRIC_WORDS, describe
from workbench.runs.run_store import StoredRun
from workbench.runs.series import Curve, RunSeries

_MOST_POINTS = 800
_UNKNOWN = "-"
_CHARTS = (("loss", 0), ("accuracy", 2), ("host_ms_per_batch", 4))


def curves_part(run: StoredRun) -> Html:
    """Return the run's curves under a heading."""
    parts = charts(run.series())
    if not parts:
        parts = [tag("p", "The run ended before its first step.", class_="faint")]
    return section("Curves", *parts)


def charts(series: RunSeries) -> list[Html]:
    """Return curves, each with the sentence that reads it."""
    parts: list[Html] = []
    for metric, colour in _CHARTS:
        fine, coarse = series.curve(metric), series.epochs.get(metric, Curve())
        if not fine.ys:
            continue
        words = METRIC_WORDS[metric]
        name = f"{words.title}, {words.unit}" if words.unit else words.title
        lines = [PlottedLine(words.title, _points(fine), colour)]
        if coarse.ys:
            title = f"{words.title} of the epoch"
            points = _points(coarse)
            lines.append(PlottedLine(title, points, colour, dots=True, joined=False))
        drawing = line_chart(lines, fine.unit, name, zero=metric == "host_ms_per_batch")
        parts += [
            tag("h3", _sentence_case(name)),
            figure(describe(metric, fine), drawing),
        ]
    return parts


def figures_part(
    run: StoredRun, spec: ExperimentSpec | None, plan: Plan | None
) -> Html:
    """Return the source document's figures beside those of this run."""
    printed = printed_figures(run.tables, run.preset)
    if spec is None or not printed.figures:
        return Html("")
    if not printed.comparable:
        words = f"{_sentence_case(printed.why_not)}, so they are not compared."
        return section("The document's figures", tag("p", words, class_="faint"))
    series = run.series()
    modelled = microseconds(plan.ipu_us_per_batch) if plan and plan.step else _UNKNOWN
    rows = [_figure_row(item, series, modelled) for item in printed.comparable]
    head = (
        "epoch",
        "loss, document",
        "loss, here",
        "accuracy, document",
        "accuracy, here",
        "per batch, document",
        "per batch, modelled",
        "per batch, measured here",
        "epoch, document",
    )
    source = spec.experiment.source or "the source document"
    return section(
        "The document's figures beside ours",
        table(
            head,
            rows,
            f"From {source}; times are per batch of data, over all replicas."
            + (f" {_sentence_case(printed.why_not)}." if printed.why_not else ""),
        ),
    )


def _figure_row(item: Figure, series: RunSeries, modelled: str) -> tuple[str, ...]:
    def here(metric: str) -> float | None:
        curve = series.epochs.get(metric, Curve())
        return dict(zip(curve.xs, curve.ys, strict=True)).get(float(item.epoch))

    measured_ms = here("host_ms_per_batch")
    return (
        str(item.epoch),
        four_decimals(item.loss, _UNKNOWN),
        four_decimals(here("loss"), _UNKNOWN),
        four_decimals(item.accuracy, _UNKNOWN),
        four_decimals(here("accuracy"), _UNKNOWN),
        microseconds(item.step_us) if item.step_us is not None else _UNKNOWN,
        modelled,
        microseconds(measured_ms * 1e3) if measured_ms is not None else _UNKNOWN,
        f"{item.seconds:g} s" if item.seconds is not None else _UNKNOWN,
    )


def _points(curve: Curve) -> tuple[tuple[float, float], ...]:
    thinned = thin(curve, _MOST_POINTS)
    return tuple(zip(thinned.xs, thinned.ys, strict=True))


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]
