"""The order in which an epoch sees its samples."""

from __future__ import annotations

import numpy as np

from workbench.data.epoch_order import EpochOrder, training_order
from workbench.experiment.experiment_loading import load_experiment


def _order(**changes: object) -> EpochOrder:
    values: dict[str, object] = {
        "samples": 10,
        "per_epoch": 10,
        "seed": 3,
        "shuffle": True,
        "continues": False,
    }
    return EpochOrder(**{**values, **changes})  # type: ignore[arg-type]


def test_every_sample_once_and_another_order_each_epoch() -> None:
    order = _order()
    assert sorted(order.indices(1)) == list(range(10))
    assert list(order.indices(1)) != list(order.indices(2))


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    assert list(_order().indices(5)) == list(_order().indices(5))
    assert list(_order(seed=4).indices(5)) != list(_order().indices(5))


def test_without_shuffling_the_order_is_that_of_the_data() -> None:
    assert list(_order(shuffle=False).indices(2)) == list(range(10))


def test_repeated_data_go_on_where_the_last_epoch_ended() -> None:
    order = _order(per_epoch=13, continues=True)
    stream = np.concatenate([order.indices(epoch) for epoch in range(1, 11)])
    for begin in range(0, 130, 10):
        assert sorted(stream[begin : begin + 10]) == list(range(10))


def test_order_of_the_dense_preset_has_64000_of_60000_samples() -> None:
    spec = load_experiment("mnist-dense").spec
    assert spec is not None
    order = training_order(spec)
    assert (order.samples, order.per_epoch, order.continues) == (60000, 64000, True)
    assert len(order.indices(4)) == 64000
