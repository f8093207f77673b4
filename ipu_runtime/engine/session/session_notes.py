"""What a call of `fit` says before it works."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.engine.pipeline.pipeline_setup import Cut, moving_statistics
from ipu_runtime.engine.programs.accumulation import Accumulation
from ipu_runtime.engine.programs.gradient_capture import captures_gradients
from ipu_runtime.engine.programs.kept_with_model import kept_of
from ipu_runtime.engine.programs.loss_scaling import loss_scaling_of
from ipu_runtime.engine.session.step_count import StepCount
from ipu_runtime.system.device import Device


def check_together(model: Any, device: Device) -> None:
    """Raise where several processes would come to weights of their own."""
    if device.instance.count == 1:
        return
    for what, is_there in (
        ("automatic loss scaling", loss_scaling_of(model.optimizer) is not None),
        ("layers that capture gradients", captures_gradients(model)),
    ):
        if is_there:
            raise NotImplementedError(
                f"The emulator has no {what} with several instances, because each "
                f"would see its own gradients only; there are {device.instance.count} "
                "instances."
            )


def tell_of_steps(
    count: StepCount, accumulation: Accumulation, batch_size: int
) -> None:
    """Log how large the effective batch is, and what would be faster."""
    logger = tf.get_logger()
    if accumulation.total > 1:
        logger.info(
            "Training with an effective batch size of %d: batch size %d, %d gradient "
            "accumulation steps per replica, %d replicas. Doing %d weight updates per "
            "execution per replica.",
            batch_size * accumulation.total,
            batch_size,
            accumulation.micro_batches,
            accumulation.replicas,
            count.per_execution // accumulation.micro_batches,
        )
    if count.per_execution == 1:
        logger.info(
            "`steps_per_execution` is 1: a larger value lets the device run several "
            "batches without waiting for the host."
        )


def warn_of_statistics(model: Any, cut: Cut | None) -> None:
    """Say once per model what real pipelines do to moving statistics."""
    kept = kept_of(model)
    layers = moving_statistics(cut) if cut and not kept.warned_of_statistics else []
    if layers:
        kept.warned_of_statistics = True
        tf.get_logger().warning(
            "The moving statistics of %s are not updated properly while a pipelined "
            "model is trained on a real IPU. Here every forward pass updates them, in "
            "the order of micro-batches.",
            ", ".join(layers),
        )


def warn_of_groups(device: Device, replicas: int) -> None:
    """Say that statistics are not shared by groups of replicas."""
    group = device.config.get(
        "norms.experimental.distributed_batch_norm_replica_group_size", 1
    )
    if group > 1 and replicas > 1:
        tf.get_logger().warning(
            "norms.experimental.distributed_batch_norm_replica_group_size is %d, but "
            "the emulation normalises every replica's batch by itself.",
            group,
        )
