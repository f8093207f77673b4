"""What a call of `fit` says before it works."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.programs.accumulation import Accumulation
from ipu_runtime.engine.build.programs.gradient_capture import captures_gradients
from ipu_runtime.engine.build.programs.loss_scaling import loss_scaling_of
from ipu_runtime.engine.build.programs.model_programs import kept_of
from ipu_runtime.engine.describe.step_count import StepCount
from ipu_runtime.engine.feeds.feed import Feed
from ipu_runtime.plan.problem import Problem
from ipu_runtime.plan.rules.count_rules import EPOCH, STEPS
from ipu_runtime.plan.rules.pipeline_rules import STAGES
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


def warn_of(problems: Iterable[Problem], model: Any, feed: Feed) -> None:
    """Log what the rules say of steps, and once per model of moving statistics."""
    kept, logger = kept_of(model), tf.get_logger()
    for problem in problems:
        # Data without an end lose nothing when fewer of their batches are taken.
        if problem.where == STEPS or (problem.where == EPOCH and feed.batches >= 0):
            logger.warning("%s.", problem.message)
        if problem.where == STAGES and not kept.warned_of_statistics:
            kept.warned_of_statistics = True
            logger.warning("%s.", problem.message)


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
