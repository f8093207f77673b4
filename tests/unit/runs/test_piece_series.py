"""Curves of what each piece of work had, from reports of means over the epoch."""

from __future__ import annotations

import math

import pytest

from workbench.runs.events import CallBegan, EpochEnded, Event, Progressed
from workbench.runs.series import series_of

LOSSES = (8.0, 6.0, 5.0, 4.0, 3.0, 2.5)
"""One for every batch; an epoch has three."""


def reports(losses: tuple[float, ...] = LOSSES) -> list[Event]:
    """Return what is told after each batch: the means since the epoch began."""
    events: list[Event] = []
    for number in range(len(losses)):
        epoch, step = number // 3, number % 3 + 1
        mean = sum(losses[epoch * 3 : number + 1]) / step
        events.append(Progressed(epoch + 1, step, 3, mean, mean / 10, 1.0, 2.0))
    return events


def test_every_report_shows_its_own_piece_and_not_the_mean_so_far() -> None:
    series = series_of(reports())
    assert series.curve("loss").ys == pytest.approx(LOSSES)
    assert series.curve("accuracy").ys == pytest.approx([y / 10 for y in LOSSES])
    means = (8.0, 7.0, 19 / 3, 4.0, 3.5, 9.5 / 3)
    assert series.means["loss"].ys == pytest.approx(means)


def test_reports_of_several_batches_are_their_mean() -> None:
    events = [event for number, event in enumerate(reports()) if number in (1, 2, 5)]
    assert series_of(events).curve("loss").ys == pytest.approx([7.0, 5.0, 9.5 / 3])


def test_numbers_that_are_told_twice_move_nothing() -> None:
    first = Progressed(1, 2, 6, 7.0, None, 1.0, 2.0)
    again = Progressed(1, 4, 6, 7.0, None, 1.5, 2.0)
    last = Progressed(1, 6, 6, 5.0, None, 1.0, 2.0)
    series = series_of([first, again, last])
    assert series.curve("loss").ys == pytest.approx([7.0, 4.0])
    assert series.curve("host_ms_per_batch").ys == (1.0, 1.5, 1.0)


def test_a_loss_that_is_no_number_lasts_from_its_report_to_the_next_epoch() -> None:
    curve = series_of(reports((8.0, math.nan, 5.0, 4.0, 3.0, 2.0))).curve("loss")
    assert [math.isfinite(y) for y in curve.ys] == [
        True,
        False,
        False,
        True,
        True,
        True,
    ]
    assert curve.first_broken == pytest.approx(2 / 3)


def test_accuracy_stays_a_share_in_spite_of_rounding() -> None:
    events = [
        Progressed(1, 1000, 2000, 0.1, 0.99999994, 1.0, 2.0),
        Progressed(1, 1001, 2000, 0.1001, 1.0, 1.0, 2.0),
    ]
    assert series_of(events).curve("accuracy").ys[1] == 1.0


def test_executions_of_a_scripts_own_program_are_no_means() -> None:
    events: list[Event] = [CallBegan("run 1", "run", "loop", 0, 0, "", "")]
    events += [
        Progressed(1, n, 0, loss, None, 1.0, 2.0, "run 1", {"loss": loss})
        for n, loss in ((1, 3.0), (2, 2.0), (3, 1.0))
    ]
    assert series_of(events).curve("loss").ys == (3.0, 2.0, 1.0)


def test_epochs_keep_the_means_that_the_run_has_reported() -> None:
    events = [*reports(), EpochEnded(2, 9.5 / 3, 0.3, 1.0, 2.0, 1.0)]
    assert series_of(events).epochs["loss"].ys == (9.5 / 3,)
