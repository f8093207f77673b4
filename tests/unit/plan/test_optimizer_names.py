"""One optimizer has one name, however a program spells it."""

from __future__ import annotations

import pytest

from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.weight_updates import summed_gradients

NOTHING = ModelSpec((), ())


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("SGD", "sgd"),
        ("GradientDescentOptimizer", "sgd"),
        ("SGDIpuOptimizer", "sgd"),
        ("MomentumOptimizer", "momentum"),
        ("rm_sprop", "rmsprop"),
        ("RMSPropOptimizer", "rmsprop"),
        ("AdamIpuOptimizer", "adam"),
        ("LAMBIpuOptimizer", "lamb"),
        ("Lion", "lion"),
    ],
)
def test_a_request_names_an_optimizer_as_the_hardware_table_does(
    spelled: str, name: str
) -> None:
    assert PlanRequest(NOTHING, 1, 1, optimizer=spelled).optimizer == name


def test_sums_count_for_gradient_descent_however_it_is_spelled() -> None:
    request = PlanRequest(
        NOTHING,
        batch_size=1,
        batches=8,
        gradient_accumulation=8,
        sums_micro_batches=True,
        optimizer="GradientDescentOptimizer",
    )
    assert summed_gradients(request) == 8
