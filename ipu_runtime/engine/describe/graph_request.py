"""What the plan is asked about a program that a function built in a graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.program_plan import on_device, values_per_sample
from ipu_runtime.engine.run.estimator_program import EstimatorProgram
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.request import PipelineRequest, PlanRequest
from ipu_runtime.system.device import Device

_SLOTS = {
    "/RMSProp": "rmsprop",
    "/Adam": "adam",
    "/Momentum": "momentum",
    " rmsprop/": "rmsprop",
    " adam/": "adam",
}
"""Optimizers by the name that they give to their variables."""


def graph_request(
    program: EstimatorProgram,
    spec: ModelSpec,
    stage_of_layer: tuple[int, ...],
    device: Device,
    *,
    element_spec: Any,
    batches_per_loop: int,
    training: bool,
    api: str,
) -> PlanRequest:
    """Return what the plan depends on; the program is in the current graph.

    Args:
        program: The loop.
        spec: The model, as its layers were read.
        stage_of_layer: Stage of every layer, for a pipeline.
        device: The device that it runs on.
        element_spec: Types and shapes of one element of the data.
        batches_per_loop: Batches of one execution, on one replica.
        training: Whether weights are updated.
        api: The estimator's name among the interfaces of an experiment.
    """
    parts = tf.nest.flatten(element_spec)
    targets = element_spec[1:] if isinstance(element_spec, tuple) else None
    pipeline = None
    if program.schedule is not None and stage_of_layer:
        pipeline = PipelineRequest(
            stage_of_layer,
            program.schedule.kind,
            program.schedule.recomputation,
            program.schedule.device_mapping,
            **program.placements,
        )
    request = PlanRequest(
        model=spec,
        batch_size=int(parts[0].shape[0]) if parts[0].shape.rank else 1,
        batches=batches_per_loop * program.replicas,
        label_values=values_per_sample(targets),
        steps_per_execution=batches_per_loop,
        gradient_accumulation=program.accumulation if training else 1,
        sums_micro_batches=training
        and program.accumulation > 1
        and program.sums_micro_batches,
        optimizer=_optimizer() if training else "sgd",
        training=training,
        api=api,
        pipeline=pipeline,
    )
    return on_device(request, device)


def _optimizer() -> str:
    """Return the optimizer of the current graph, told by its variables."""
    return optimizer_among(item.op.name for item in tf.compat.v1.global_variables())


def optimizer_among(variables: Iterable[str]) -> str:
    """Return the optimizer that has given its variables such names."""
    names = " ".join(("", *variables))
    return next((kind for slot, kind in _SLOTS.items() if slot in names), "sgd")
