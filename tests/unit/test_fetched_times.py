"""What stages wait for, as balancing sees it: layer by layer."""

from __future__ import annotations

import pytest

from ipu_runtime.plan.balance.balance_types import Objective
from workbench.experiment.experiment_loading import load_experiment
from workbench.planning.balancing import balance_request
from workbench.planning.experiment_plan import plan_experiment


@pytest.mark.parametrize(
    "moved",
    [
        "offload_activations",
        "offload_gradient_accumulation_buffers",
        "replicated_weight_sharding",
    ],
)
def test_layers_wait_for_their_own_and_not_the_first_for_all(moved: str) -> None:
    changes = ["ipu.auto_select_ipus=4", "pipeline.schedule=Interleaved"]
    spec = load_experiment("mnist-ipu-pipelined", changes).spec
    away = load_experiment("mnist-ipu-pipelined", [*changes, f"pipeline.{moved}=true"])
    assert spec is not None
    assert away.spec is not None
    before, after = (
        balance_request(own, plan_experiment(own), 2, Objective.STEP_TIME)
        for own in (spec, away.spec)
    )
    # The second layer is a pooling, which has no weights.
    waited = [
        own + back - other - other_back
        for own, back, other, other_back in zip(
            after.forward_us,
            after.backward_us,
            before.forward_us,
            before.backward_us,
            strict=True,
        )
    ]
    assert sum(waited) > 0
    assert waited[0] < 0.7 * sum(waited)
    if moved != "offload_activations":
        assert waited[1] == pytest.approx(0, abs=1e-6)
