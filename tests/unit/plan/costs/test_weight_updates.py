"""At which rate weights are updated, worked out by a step of gradient descent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.request_json import request_from_json, request_to_json
from ipu_runtime.plan.rules.weight_updates import (
    check_learning_rate,
    effective_rate,
    update_changes,
)


@pytest.fixture
def base(mnist_cnn: ModelSpec) -> PlanRequest:
    return PlanRequest(
        mnist_cnn,
        16,
        960,
        steps_per_execution=8,
        gradient_accumulation=8,
        ipus=2,
        learning_rate=0.01,
        sums_micro_batches=True,
        sums_replicas=True,
    )


@pytest.mark.parametrize("sums_replicas", [True, False])
@pytest.mark.parametrize("sums_micro_batches", [True, False])
def test_the_effective_rate_moves_weights_as_the_mean_of_all_samples_would(
    base: PlanRequest, sums_micro_batches: bool, sums_replicas: bool
) -> None:
    rng = np.random.default_rng(0)
    # A linear model with squared loss: one gradient for every sample.
    x, y = rng.normal(size=(2, 8, 16, 3)), rng.normal(size=(2, 8, 16))
    gradients = ((x @ np.ones(3) - y)[..., None] * x).mean(axis=2)
    reduce = {True: np.sum, False: np.mean}
    per_replica = reduce[sums_micro_batches](gradients, axis=1)
    step = 0.01 * reduce[sums_replicas](per_replica, axis=0)
    request = replace(
        base, sums_micro_batches=sums_micro_batches, sums_replicas=sums_replicas
    )
    whole = ((x @ np.ones(3) - y)[..., None] * x).mean(axis=(0, 1, 2))
    np.testing.assert_allclose(effective_rate(request) * whole, step)


def test_a_sum_says_its_rate_and_how_to_keep_it(base: PlanRequest) -> None:
    (problem,) = check_learning_rate(base)
    assert str(problem) == (
        "train.learning_rate: effective learning rate 0.16: the gradients of 8 "
        "micro-batches and 2 replicas are summed; 0.000625 makes it 0.01; "
        "execution.accumulation_reduction = mean sums replicas only"
    )
    kept = replace(base, learning_rate=problem.suggestion)
    assert effective_rate(kept) == pytest.approx(0.01)
    told = problem.at("execution.accumulation_reduction")
    assert told is not None
    assert told.suggestion == "mean"
    assert problem.at("train.optimizer") is None


def test_one_reduction_keeps_the_rate_where_only_micro_batches_are_summed(
    base: PlanRequest,
) -> None:
    (problem,) = check_learning_rate(replace(base, ipus=1))
    assert problem.others == (("execution.accumulation_reduction", "mean"),)
    mean = replace(base, ipus=1, sums_micro_batches=False)
    assert list(check_learning_rate(mean)) == []
    assert effective_rate(mean) == 0.01


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "adam"},
        {"optimizer": "rmsprop"},
        {"training": False},
        {"ipus": 1, "gradient_accumulation": 1},
        {"sums_micro_batches": False, "sums_replicas": False},
    ],
)
def test_nothing_is_said_where_the_rate_is_what_it_says(
    base: PlanRequest, changes: dict[str, object]
) -> None:
    assert list(check_learning_rate(replace(base, **changes))) == []  # type: ignore[arg-type]


def test_an_unknown_rate_is_told_by_its_factor(base: PlanRequest) -> None:
    (problem,) = check_learning_rate(replace(base, learning_rate=0.0))
    assert "16 times as large" in problem.problem
    assert problem.suggestion is None


def test_what_changes_training_is_told(base: PlanRequest) -> None:
    larger = replace(base, batch_size=512)
    assert update_changes(base, larger) == (
        "8,192 samples per update instead of 256: 32 times fewer updates an epoch",
    )
    single = replace(base, gradient_accumulation=1)
    assert update_changes(base, single) == (
        "32 samples per update instead of 256: 8 times more updates an epoch",
        "effective learning rate 0.16 to 0.02 (sum of 2 gradients)",
    )
    assert update_changes(base, replace(base, system="Pod16")) == ()


def test_a_request_is_read_again_with_what_it_sums(base: PlanRequest) -> None:
    assert request_from_json(request_to_json(base)) == base
