"""The cost model against results that were published; nothing is fitted to a row."""

from __future__ import annotations

import pytest

from workbench.published.cycle_rows import cycle_rows
from workbench.published.memory_rows import memory_rows
from workbench.published.published_tables import root_mean_square
from workbench.published.throughput_rows import throughput_rows

FARTHEST = {
    # Fixed costs are those of TensorFlow 2, which count most in small predictions.
    "predictions-4": 0.25,
    # The same on 16 IPUs is 1 % off; why 64 were 3.3 times as fast is not known.
    "bert512-bow64-packed": 0.22,
}


@pytest.mark.parametrize("name", throughput_rows())
def test_no_row_is_far_off(name: str) -> None:
    row = throughput_rows()[name]
    assert abs(row.error) < FARTHEST.get(name, 0.2)
    assert row.plan.ok, row.plan.problems


# Goals, and where docs/cost-model.md says why one is not reached: what it is now.
MEMORY = {
    "nanogpt-peak": 0.2,
    "nanogpt-always_live": 0.35,
    "nanogpt-rest": 0.2,
    "nanogpt-tile": 0.21,
    "bert-code": 0.35,
}


@pytest.mark.parametrize("name", MEMORY)
def test_published_memory_is_near(name: str) -> None:
    assert abs(memory_rows()[name].error) < MEMORY[name]


def test_what_had_room_has_room() -> None:
    rooms = [row for row in memory_rows().values() if row.is_limit]
    assert rooms
    assert all(row.modelled <= row.published for row in rooms)


def test_some_thirty_rows_are_typically_a_tenth_off() -> None:
    rows = list(throughput_rows().values())
    assert len(rows) >= 30
    assert root_mean_square(rows) <= 0.1


def test_the_matrix_unit_takes_the_cycles_that_were_measured() -> None:
    # At 16 positions, two workers have only two, which takes them 3 cycles longer.
    errors = [abs(row.error) for row in cycle_rows()]
    assert len(errors) == 8
    assert errors[0] < 0.05
    assert max(errors[1:]) < 0.015


def test_packed_rows_count_samples() -> None:
    # 65,536 sequences of an update make 56,064 samples, by the published batch size.
    row = throughput_rows()["bert-bow16-packed"]
    assert row.published == pytest.approx(5600 * 56_064 / 65_536, rel=0.002)


@pytest.mark.parametrize(
    ("one", "other", "published"),
    [
        ("resnet-pod256", "resnet-pod64", 3.22),
        ("resnet-bow256-later", "resnet-bow64-later", 2.98),
        ("resnet-pod64", "resnet-pod16", 3.65),
    ],
)
def test_scaling_is_as_published(one: str, other: str, published: float) -> None:
    found = throughput_rows()
    assert found[one].modelled / found[other].modelled == pytest.approx(
        published, rel=0.05
    )
