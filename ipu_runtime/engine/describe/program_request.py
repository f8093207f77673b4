"""What the plan is asked about a program, whichever front end it comes from.

Readers say what a program consists of (`keras_reader` for models, `layer_use_reader`
for functions that call layers, `operations_reader` for anything else); here it becomes
a request on the device that it will run on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import tensorflow as tf

from ipu_runtime.frameworks.keras_api import tree
from ipu_runtime.frameworks.types import Optimizer, Structure
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.request import PipelineRequest, PlanRequest, optimizer_name
from ipu_runtime.plan.rules.replica_counts import ipus_per_replica
from ipu_runtime.system.device import Device


def program_request(
    model: ModelSpec,
    device: Device,
    *,
    batch_size: int,
    batches: int,
    steps_per_execution: int,
    label_values: int = 1,
    optimizer: str | None = None,
    accumulation: int = 1,
    sums_micro_batches: bool = False,
    sums_replicas: bool = False,
    pipeline: PipelineRequest | None = None,
    api: str = "ipu_strategy",
) -> PlanRequest:
    """Return what the plan depends on, whether the device would take it or not.

    The plan is that of all processes: their replicas meet in every weight update.

    Args:
        model: The model, as it was read.
        device: The device that the program runs on.
        batch_size: Samples of a batch.
        batches: Batches of an epoch, over the replicas of this process.
        steps_per_execution: As it was asked for.
        label_values: Values of one sample's targets; 1 where they are not known.
        optimizer: What trains; None if the weights stay as they are.
        accumulation: Micro-batches of a weight update, on one replica.
        sums_micro_batches: Whether an update takes their sum.
        sums_replicas: Whether it takes the sum of replicas, where there are several.
        pipeline: The stages of a pipelined model.
        api: The interface that runs it.
    """
    training = optimizer is not None
    accumulation = accumulation if training else 1
    instances = device.instance.count if training else 1
    ipus = device.ipus * instances
    several = ipus // ipus_per_replica(pipeline) > 1
    return PlanRequest(
        model=model,
        batch_size=batch_size,
        batches=batches * instances,
        label_values=label_values,
        steps_per_execution=steps_per_execution,
        gradient_accumulation=accumulation,
        sums_micro_batches=sums_micro_batches and accumulation > 1,
        sums_replicas=sums_replicas and training and several,
        optimizer=optimizer or "sgd",
        training=training,
        api=api,
        ipus=ipus,
        system=device.system,
        pipeline=pipeline,
        config=device.config,
        hardware_file=device.hardware_file,
        steady=device.steady,
        instances=instances,
        hosts=device.hosts if instances == device.instance.count else 0,
    )


def values_per_sample(targets: Structure) -> int:
    """Count the values of one sample's targets, given types and shapes of a batch."""
    return sum(
        int(tf.TensorShape(spec.shape[1:]).num_elements() or 1)
        for spec in tree.flatten(targets)
        if spec is not None
    )


_SLOTS = frozenset(("momentum", "rmsprop", "adam", "adagrad", "adadelta", "ftrl"))
"""Slots of `tf.compat.v1.train` by the optimizer; other slots are averages."""
_NUMBER = re.compile(r"_\d+$")


def optimizer_of(optimizer: Optimizer) -> str:
    """Return the name of an optimizer, without what wraps it."""
    for inside in ("inner", "inner_optimizer"):
        if hasattr(optimizer, inside):
            return optimizer_of(getattr(optimizer, inside))
    name = optimizer_name(type(optimizer).__name__)
    return (
        "momentum" if name == "sgd" and getattr(optimizer, "momentum", None) else name
    )


def optimizer_among(variables: Iterable[str]) -> str:
    """Return the optimizer whose variables these are; without any it is SGD.

    `Optimizer.build` of Keras 3 names the first one `SCOPE/iteration`, and
    `Optimizer._slot_dict` of TensorFlow 1 names slots `VARIABLE/OPTIMIZER`, each with
    `_1`, `_2`, ... where a graph has the name already.
    """
    names = {name.removesuffix(":0") for name in variables}
    for name in sorted(names):
        before, _, last = name.rpartition("/")
        if last == "iteration" and before:
            found = optimizer_name(_NUMBER.sub("", before.rpartition("/")[2]))
            momentum = found == "sgd" and any(
                other.endswith("_momentum") for other in names
            )
            return "momentum" if momentum else found
        slot = optimizer_name(_NUMBER.sub("", last))
        if before in names and slot in _SLOTS:
            return slot
    return "sgd"
