"""One call of `fit`, `evaluate` or `predict`: described, checked, planned and built."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import tensorflow as tf

from ipu_runtime.engine.build.programs.accumulation import Accumulation
from ipu_runtime.engine.build.programs.executable import BuiltProgram
from ipu_runtime.engine.build.programs.gradient_capture import captures_gradients
from ipu_runtime.engine.build.programs.loss_scaling import loss_scaling_of
from ipu_runtime.engine.build.programs.metric_results import (
    AveragedResults,
    Logs,
    reduce_results,
)
from ipu_runtime.engine.build.programs.model_programs import (
    ProgramSet,
    Setting,
    programs_of,
)
from ipu_runtime.engine.describe.model_cache import cache_of, plan_once
from ipu_runtime.engine.describe.model_call import (
    DescribedCall,
    ModelCall,
    announce_call,
    describe_call,
)
from ipu_runtime.engine.describe.model_options import (
    ReplicatedMetricReductionMethod,
)
from ipu_runtime.engine.describe.refusal import checked
from ipu_runtime.engine.describe.step_count import StepCount, count_steps
from ipu_runtime.engine.watch.observer import ProgramPlan
from ipu_runtime.frameworks.types import KerasModel
from ipu_runtime.plan.problem import Problem
from ipu_runtime.plan.rules.count_rules import EPOCH, STEPS
from ipu_runtime.plan.rules.pipeline_rules import STAGES
from ipu_runtime.system.device import Device
from ipu_runtime.system.instances import Instance


@dataclass(frozen=True)
class Session:
    """One call of `fit`, `evaluate` or `predict`, checked and ready to run."""

    call: ModelCall
    count: StepCount
    programs: ProgramSet
    program: BuiltProgram
    update_batches: int
    """Batches of one weight update, over all replicas."""
    asynchronous: bool
    """Whether callbacks hear of every step, from a thread of their own."""
    averaged: AveragedResults | None = None
    """Where the metrics of an outfeed that is averaged are collected."""
    instance: Instance = field(default_factory=Instance)
    """This process among those that train together."""

    def joins_executions(self, listened_to: bool) -> bool:
        """Whether executions may run into each other, because nobody would notice.

        Args:
            listened_to: Whether a callback hears of every execution.
        """
        micro_batch = self.programs.micro_batch
        copies = self.count.replicas * micro_batch.instance.count
        own_statistics = copies > 1 and micro_batch.statistics.variables
        return not (listened_to or own_statistics)

    def begin_epoch(self) -> None:
        """Let metrics begin anew, those of all replicas."""
        self.call.model.reset_metrics()
        self.programs.micro_batch.metrics.spread()

    def begin_execution(self) -> None:
        """Let all replicas begin with the statistics of the model."""
        self.programs.micro_batch.statistics.spread()

    def end_execution(self) -> None:
        """Let the model have what replicas and processes have made of its state."""
        self.programs.micro_batch.statistics.keep_mean()
        if self.call.training:
            self.programs.micro_batch.share_statistics()
        self.programs.micro_batch.metrics.keep_last()

    @property
    def stop_training(self) -> bool:
        """Whether a callback has asked to stop."""
        return self.call.training and bool(self.call.model.stop_training)

    def logs(self) -> Logs:
        """Return the metrics as they stand."""
        if self.averaged is not None:
            return self.averaged.logs()
        method = self.call.options.metric_reduction
        if self.call.options.pipelined:
            method = ReplicatedMetricReductionMethod.NONE
        return reduce_results(self.programs.results.by_replica(), method)


def open_session(call: ModelCall) -> Session:
    """Take a call from its description to a program that can be run."""
    described = describe_call(call)
    _warn_of(checked(described.request), call)
    count = count_steps(
        call.feed, call.steps, call.epochs, call.replicas, call.per_execution
    )
    planned = _plan(call, described, count)
    announce_call(call, described, planned)
    return _build(call, described, count, planned)


def _plan(call: ModelCall, described: DescribedCall, count: StepCount) -> ProgramPlan:
    if described.unknown:
        return ProgramPlan(None, None, described.unknown)
    request = described.request_of(count)
    return plan_once(call.model, call.phase, request, call.device)


def _build(
    call: ModelCall, described: DescribedCall, count: StepCount, planned: ProgramPlan
) -> Session:
    options, cut, device = call.options, described.cut, call.device
    accumulation = Accumulation(
        options.accumulation_method,
        described.micro_batches,
        count.replicas,
        cut.accumulator_dtype if cut else options.accumulation_kwargs.get("dtype"),
        device.instance,
    )
    if call.training:
        _check_together(call.model, device)
        _tell_of_steps(count, accumulation, call.feed.batch_size)
        _warn_of_groups(device, count.replicas)
    programs = programs_of(
        call.model, described.read, count.replicas, device, call.phase
    )
    predicts = call.phase == "predict"
    averaged = options.accumulate_outfeed and options.pipelined and not predicts
    asynchronous = options.asynchronous_callbacks and not averaged
    collect = (asynchronous or averaged) and not predicts
    setting = Setting(call.phase, call.feed, count, accumulation, cut, collect)
    in_run = described.micro_batches if call.training else count.per_execution
    return Session(
        call,
        count,
        programs,
        programs.get(setting, planned),
        accumulation.total,
        asynchronous,
        AveragedResults(in_run, count.replicas) if averaged else None,
        device.instance if call.training else Instance(),
    )


def _check_together(model: KerasModel, device: Device) -> None:
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


def _tell_of_steps(
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


def _warn_of(problems: Iterable[Problem], call: ModelCall) -> None:
    """Log what the rules say of steps, and once per model of moving statistics."""
    cache, logger = cache_of(call.model), tf.get_logger()
    for problem in problems:
        # Data without an end lose nothing when fewer of their batches are taken.
        of_data = problem.where == EPOCH and call.feed.batches >= 0
        if problem.where == STEPS or of_data:
            logger.warning("%s.", problem.message)
        if problem.where == STAGES and not cache.warned_of_statistics:
            cache.warned_of_statistics = True
            logger.warning("%s.", problem.message)


def _warn_of_groups(device: Device, replicas: int) -> None:
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
