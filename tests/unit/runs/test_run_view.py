"""What is known of a run from its events."""

from __future__ import annotations

import pytest

from ipu_runtime.plan.quantities import (
    byte_size,
    change,
    count,
    duration,
    four_decimals,
    four_digits,
    microseconds,
    plural,
    share,
)
from workbench.charts.plotting import tick_label
from workbench.experiment.experiment_spec import Figure
from workbench.experiment.printed_figures import PrintedFigures, figures_in
from workbench.runs.events import (
    Compiled,
    Compiling,
    EpochEnded,
    Evaluated,
    Progressed,
    RunEnded,
    RunStarted,
    RunStatus,
)
from workbench.runs.run_view import RunView
from workbench.runs.verdict import verdict


def progress(epoch: int, step: int) -> Progressed:
    return Progressed(epoch, step, 100, 1.0, 0.5, 15.0, 250.0)


@pytest.fixture
def monitor() -> RunView:
    monitor = RunView("mnist", 2)
    monitor.add(RunStarted("run-1", "mnist", {}), 0.0)
    return monitor


def test_activity_says_what_goes_on(monitor: RunView) -> None:
    monitor.add(Compiling("loading TensorFlow"), 1.0)
    assert monitor.activity == "loading TensorFlow"
    monitor.add(Compiled("2 stage programs", 2.1, 51.0), 3.0)
    assert monitor.log[-1].text == (
        "compiled 2 stage programs in 2.1 s (an IPU: about 51 s, modelled)"
    )


def test_time_left_follows_the_speed_so_far(monitor: RunView) -> None:
    monitor.add(progress(1, 10), 10.0)
    assert monitor.seconds_left is None
    monitor.add(progress(1, 60), 20.0)
    assert monitor.fraction == pytest.approx(0.3)
    assert monitor.seconds_left == pytest.approx(28.0)


def test_a_clock_that_is_set_back_leaves_no_time_below_zero(
    monitor: RunView,
) -> None:
    monitor.add(progress(1, 10), 5000.0)
    monitor.add(progress(1, 60), 1400.0)
    assert monitor.seconds_left is None


def test_verdict_puts_the_documents_figure_beside_the_result(
    monitor: RunView,
) -> None:
    monitor.add(EpochEnded(1, 0.5, 0.8, 15.0, 250.0, 1.5), 1.0)
    monitor.add(EpochEnded(2, 0.3, 0.927, 15.0, 250.0, 1.5), 2.0)
    monitor.add(Evaluated(0.2, 0.94), 3.0)
    monitor.add(RunEnded(RunStatus.FINISHED), 3.0)
    figures = (Figure(2, accuracy=0.9289),)
    assert verdict(monitor, PrintedFigures(figures)) == (
        "accuracy 0.927 after 2 epochs, the document prints 0.9289; on test data 0.94"
    )


def test_verdict_of_a_broken_run_is_its_reason(monitor: RunView) -> None:
    monitor.add(RunEnded(RunStatus.FAILED, "ValueError: no room"), 1.0)
    assert verdict(monitor, PrintedFigures()) == "failed: ValueError: no room"


def test_verdict_of_a_run_stopped_at_once(monitor: RunView) -> None:
    monitor.add(RunEnded(RunStatus.STOPPED), 1.0)
    assert verdict(monitor, PrintedFigures()) == "stopped before the first epoch ended"


def test_figures_of_odd_tables_are_left_out() -> None:
    tables = {"experiment": {"figures": [{"epoch": 1, "loss": 0.5, "x": 1}, 3, {}]}}
    assert figures_in(tables) == (Figure(1, loss=0.5),)
    assert figures_in({"experiment": 3}) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (microseconds(254.3), "254 us"),
        (microseconds(1520.0), "1.52 ms"),
        (microseconds(51e6), "51.0 s"),
        (byte_size(0), "0 B"),
        (byte_size(1536), "1.50 KiB"),
        (byte_size(897 * 2**20), "897 MiB"),
        (count(251_000), "251 k"),
        (count(928), "928"),
        (four_digits(0.86441), "0.8644"),
        (four_digits(123456.0, "us"), "123,456 us"),
        (four_digits(9999.7), "10,000"),
        (four_decimals(0.5), "0.5000"),
        (four_decimals(None, "-"), "-"),
        (four_decimals(2.6e29), "2.6e+29"),
        (four_digits(2.6e29), "2.6e+29"),
        (tick_label(-3e31), "-3.0e31"),
        (plural(1, "run"), "1 run"),
        (plural(2, "run"), "2 runs"),
        (share(0.113), "11 %"),
        (share(0.001), "<1 %"),
        (change(97.0, 100.0), "-3 %"),
        (change(100.0, 100.0), "="),
        (change(1.0, 0.0), ""),
        (duration(2.1), "2.1 s"),
        (duration(185), "3 min 05 s"),
        (duration(7800), "2 h 10 min"),
    ],
)
def test_quantities_have_few_digits_and_a_unit(text: str, expected: str) -> None:
    assert text == expected
