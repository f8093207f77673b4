"""The cost model against results that were published; nothing is fitted to a row."""

from __future__ import annotations

import pytest

from docs.published import rows


@pytest.mark.parametrize("name", rows())
def test_no_row_is_far_off(name: str) -> None:
    row = rows()[name]
    assert abs(row.error) < 0.2
    assert row.plan.ok, row.plan.problems


@pytest.mark.parametrize(
    ("one", "other", "published"),
    [
        ("resnet-pod256", "resnet-pod64", 3.22),
        ("resnet-bow256-later", "resnet-bow64-later", 2.98),
        ("resnet-pod64", "resnet-pod16", 3.65),
    ],
)
def test_scaling_is_as_published(one: str, other: str, published: float) -> None:
    found = rows()
    assert found[one].modelled / found[other].modelled == pytest.approx(
        published, rel=0.05
    )
