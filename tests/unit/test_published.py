"""The cost model against results that were published; nothing is fitted to a row."""

from __future__ import annotations

import pytest

from docs.published import rows


@pytest.mark.parametrize("name", rows())
def test_no_row_is_far_off(name: str) -> None:
    row = rows()[name]
    # Fixed costs are those of TensorFlow 2, which count most in small predictions.
    assert abs(row.error) < (0.25 if name == "predictions-4" else 0.2)
    assert row.plan.ok, row.plan.problems


def test_there_are_some_thirty_rows() -> None:
    assert len(rows()) >= 30


def test_packed_rows_count_samples() -> None:
    # 65,536 sequences of an update make 56,064 samples, by the published batch size.
    row = rows()["bert-bow16-packed"]
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
    found = rows()
    assert found[one].modelled / found[other].modelled == pytest.approx(
        published, rel=0.05
    )
