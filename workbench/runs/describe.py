"""One sentence that says what a chart shows, for help, logs and screen readers."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_runtime.plan.quantities import four_digits
from workbench.runs.events import EpochEnded, Evaluated
from workbench.runs.series import Curve


@dataclass(frozen=True, slots=True)
class MetricWords:
    """How a metric of `series.METRICS` is called and read."""

    title: str
    unit: str = ""
    lower_is_better: bool = True


METRIC_WORDS: dict[str, MetricWords] = {
    "loss": MetricWords("loss"),
    "accuracy": MetricWords("accuracy", lower_is_better=False),
    "host_ms_per_batch": MetricWords("measured time per batch", "ms"),
    "ipu_us_per_batch": MetricWords("modelled time per batch", "us"),
    "host_samples_per_second": MetricWords("measured samples/s", lower_is_better=False),
    "samples_per_second": MetricWords("modelled samples/s", lower_is_better=False),
}

_SHARE_OF_END = 0.1
"""The last tenth of a curve decides whether it still moves."""
_FLAT = 0.01
"""A change below one hundredth of the whole change counts as none."""


def describe(metric: str, curve: Curve) -> str:
    """Return the reading of a curve in one sentence."""
    words = METRIC_WORDS[metric]
    points = [(x, y) for x, y in zip(curve.xs, curve.ys, strict=True) if y == y]
    if not points:
        return f"No {words.title} yet."
    values = [y for _, y in points]
    first, last = (four_digits(value, words.unit) for value in (values[0], values[-1]))
    if len(points) == 1:
        return f"The {words.title} is {first} at its only point."
    best_of = min if words.lower_is_better else max
    best_x, best_y = best_of(points, key=lambda point: point[1])
    best_word = "lowest" if words.lower_is_better else "highest"
    falls = values[-1] < values[0]
    path = f"{'fell' if falls else 'rose'} from {first} to {last}"
    direction: float | None = values[-1] - values[0]
    if first == last:
        moved = four_digits(best_y, words.unit) != first
        path = f"began and ended at {last}" if moved else f"stayed at {last}"
        direction = None
    span = f"{points[-1][0]:.3g}"
    epochs = f"{span} {curve.unit}" if span == "1" else f"{span} {curve.unit}s"
    return (
        f"The {words.title} {path} over {epochs}; {best_word} "
        f"{four_digits(best_y, words.unit)} at {curve.unit} {best_x:.3g}; "
        f"{_trend(values, direction)}."
    )


def _trend(values: list[float], direction: float | None) -> str:
    """Return where the curve goes at its end.

    Args:
        values: The curve.
        direction: Where it went as a whole, None if nowhere: only what goes on in
            that direction still does.
    """
    tail = max(1, round(len(values) * _SHARE_OF_END))
    before = values[-2 * tail : -tail] or values[:1]
    change = sum(values[-tail:]) / tail - sum(before) / len(before)
    span = max(values) - min(values)
    if span == 0 or abs(change) < _FLAT * span:
        return "flat at the end"
    verb = "falling" if change < 0 else "rising"
    goes_on = direction is not None and (change < 0) == (direction < 0)
    return f"still {verb}" if goes_on else f"{verb} at the end"


def loss_and_accuracy(event: EpochEnded | Evaluated) -> str:
    """Return what was reached, in a few words."""
    text = f"loss {four_digits(event.loss)}"
    if event.accuracy is None:
        return text
    return f"{text}, accuracy {four_digits(event.accuracy)}"
