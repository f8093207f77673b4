"""What the plan is asked about a program of a built Keras model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ipu_runtime.engine.describe.pipeline_cut import Cut
from ipu_runtime.engine.describe.program_plan import on_device, values_per_sample
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.plan.rules.replica_counts import replica_count
from ipu_runtime.system.device import Device


def keras_request(
    spec: ModelSpec,
    device: Device,
    *,
    batch_size: int,
    batches: int,
    per_execution: int,
    targets: Any,
    cut: Cut | None,
    accumulation: int = 1,
    sums_micro_batches: bool = False,
    optimizer: Any = None,
) -> PlanRequest:
    """Return what the plan depends on, whether the device would take it or not.

    Args:
        spec: The model, as it was read.
        device: The device that it runs on.
        batch_size: Samples of a batch.
        batches: Batches of an epoch, over the replicas of this process.
        per_execution: `steps_per_execution` as it was asked for.
        targets: Types and shapes of the targets of one batch; None if it has none.
        cut: The stages of a pipelined model.
        accumulation: Micro-batches of a weight update, on one replica.
        sums_micro_batches: Whether an update takes their sum.
        optimizer: What trains; None if the weights stay as they are.
    """
    request = PlanRequest(
        model=spec,
        batch_size=batch_size,
        batches=batches,
        label_values=values_per_sample(targets),
        steps_per_execution=per_execution,
        gradient_accumulation=accumulation,
        sums_micro_batches=sums_micro_batches and accumulation > 1,
        optimizer=_name_of(optimizer) if optimizer is not None else "sgd",
        training=optimizer is not None,
        pipeline=cut.request() if cut else None,
    )
    whole = on_device(request, device)
    # PopDistStrategy divides losses by the number of replicas.
    sums = device.loss_scale_replicas == 1 and replica_count(whole) > 1
    return replace(whole, sums_replicas=whole.training and sums)


def _name_of(optimizer: Any) -> str:
    """Return the optimizer's name as the plan knows it, without what wraps it."""
    for inside in ("inner", "inner_optimizer"):
        if hasattr(optimizer, inside):
            return _name_of(getattr(optimizer, inside))
    name = type(optimizer).__name__.lower()
    if name.startswith("sgd") and getattr(optimizer, "momentum", None):
        return "momentum"
    return name
