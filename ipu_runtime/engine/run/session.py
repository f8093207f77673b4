"""What `fit`, `evaluate` and `predict` have in common: checks, plan, program."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.programs.accumulation import Accumulation
from ipu_runtime.engine.build.programs.executable import BuiltProgram
from ipu_runtime.engine.build.programs.metric_results import (
    AveragedResults,
    Logs,
    reduce_results,
)
from ipu_runtime.engine.build.programs.model_programs import (
    ProgramSet,
    Setting,
    plan_once,
    programs_of,
    read_hidden_once,
    read_once,
)
from ipu_runtime.engine.describe.keras_reader import ReadModel, outline
from ipu_runtime.engine.describe.model_options import (
    ModelOptions,
    ReplicatedMetricReductionMethod,
)
from ipu_runtime.engine.describe.pipeline_cut import Cut, make_cut
from ipu_runtime.engine.describe.program_request import (
    optimizer_of,
    program_request,
    values_per_sample,
)
from ipu_runtime.engine.describe.refusal import checked
from ipu_runtime.engine.describe.step_count import (
    StepCount,
    count_batches,
    count_steps,
)
from ipu_runtime.engine.feeds.feed import Feed
from ipu_runtime.engine.run.session_notes import (
    check_together,
    tell_of_steps,
    warn_of,
    warn_of_groups,
)
from ipu_runtime.engine.watch.interception import (
    Program,
    announce,
    is_intercepted,
)
from ipu_runtime.engine.watch.observer import ProgramPlan
from ipu_runtime.frameworks.keras_api import keras, tree, unpack_x_y_sample_weight
from ipu_runtime.frameworks.keras_calls import layers_inside
from ipu_runtime.frameworks.keras_training import (
    build_for_inference,
    build_for_training,
)
from ipu_runtime.frameworks.types import KerasModel
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.request import PlanRequest
from ipu_runtime.system.device import Device
from ipu_runtime.system.instances import Instance


@dataclass(frozen=True)
class Session:
    """One call of `fit`, `evaluate` or `predict`, checked and ready to run."""

    model: KerasModel
    options: ModelOptions
    phase: str
    """`train`, `test` or `predict`."""
    feed: Feed
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
        self.model.reset_metrics()
        self.programs.micro_batch.metrics.spread()

    def begin_execution(self) -> None:
        """Let all replicas begin with the statistics of the model."""
        self.programs.micro_batch.statistics.spread()

    def end_execution(self) -> None:
        """Let the model have what replicas and processes have made of its state."""
        self.programs.micro_batch.statistics.keep_mean()
        if self.phase == "train":
            self.programs.micro_batch.share_statistics()
        self.programs.micro_batch.metrics.keep_last()

    @property
    def stop_training(self) -> bool:
        """Whether a callback has asked to stop."""
        return self.phase == "train" and bool(self.model.stop_training)

    def logs(self) -> Logs:
        """Return the metrics as they stand."""
        if self.averaged is not None:
            return self.averaged.logs()
        method = self.options.metric_reduction
        if self.options.pipelined:
            method = ReplicatedMetricReductionMethod.NONE
        return reduce_results(self.programs.results.by_replica(), method)


def check_compiled(model: Any) -> None:
    """Raise if the model has not been compiled."""
    if not model.compiled:
        raise RuntimeError(
            "You must compile your model before training/testing. "
            "Use `model.compile(optimizer, loss)`."
        )


def open_session(
    model: Any,
    options: ModelOptions,
    device: Device,
    phase: str,
    feed: Feed,
    steps: int | None,
    epochs: int,
) -> Session:
    """Build the model, describe the call, check it, and find or build its program.

    An error about counts of IPUs, batches or steps says what would be valid.
    """
    training = phase == "train"
    per_execution = model.steps_per_execution if model.compiled else 1
    batches = count_batches(feed, steps, per_execution)
    micro_batches = _micro_batches(options, training)
    if training:
        _check_optimizer(model, options, micro_batches)
    _build(model, feed.element_spec, phase)
    read = read_once(model)
    cut = _cut(options, device, read)
    spec, reason = _spec(model, read, feed)
    _, targets, _ = unpack_x_y_sample_weight(feed.element_spec)
    request = program_request(
        spec,
        device,
        batch_size=feed.batch_size,
        batches=batches,
        steps_per_execution=per_execution,
        label_values=values_per_sample(targets),
        optimizer=optimizer_of(model.optimizer) if training else None,
        accumulation=micro_batches,
        sums_micro_batches=options.accumulation_method.sums,
        # `PopDistStrategy` divides losses by the number of replicas.
        sums_replicas=device.loss_scale_replicas == 1,
        pipeline=cut.request() if cut else None,
    )
    warn_of(checked(request), model, feed)
    replicas = device.replicas(options.shard_count)
    count = count_steps(feed, steps, epochs, replicas, per_execution)
    planned = ProgramPlan(None, None, reason)
    if not reason:
        planned = plan_once(model, phase, _as_it_runs(request, count), device)
    accumulation = Accumulation(
        options.accumulation_method,
        micro_batches,
        replicas,
        cut.accumulator_dtype if cut else options.accumulation_kwargs.get("dtype"),
        device.instance,
    )
    if is_intercepted():
        announce(_program(model, phase, planned, read is None))
    if training:
        check_together(model, device)
        tell_of_steps(count, accumulation, feed.batch_size)
        warn_of_groups(device, replicas)
    programs = programs_of(model, read, replicas, device, phase)
    averaged = options.accumulate_outfeed and options.pipelined and phase != "predict"
    asynchronous = options.asynchronous_callbacks and not averaged
    in_run = micro_batches if training else count.per_execution
    setting = Setting(
        phase,
        feed,
        count,
        accumulation,
        cut,
        (asynchronous or averaged) and phase != "predict",
    )
    return Session(
        model,
        options,
        phase,
        feed,
        count,
        programs,
        programs.get(setting, planned),
        accumulation.total,
        asynchronous,
        AveragedResults(in_run, replicas) if averaged else None,
        device.instance if training else Instance(),
    )


def _program(model: Any, phase: str, planned: ProgramPlan, hidden: bool) -> Program:
    """Describe a program to somebody outside of the script."""
    kind = "Sequential" if isinstance(model, keras.Sequential) else "Model"
    facts: dict[str, Any] = {"one_block": hidden, "keras": kind}
    if phase == "train":
        rate = getattr(model.optimizer, "learning_rate", None)
        facts["losses"] = list(map(_loss_facts, _losses_in_order(model)))
        facts["learning_rate"] = None if rate is None else float(rate)
    return Program(
        {"train": "fit", "test": "evaluate"}.get(phase, phase),
        "ipu_strategy",
        planned.request,
        planned.reason,
        facts,
    )


def _losses_in_order(model: Any) -> list[Any]:
    """Return what `compile` was given as losses, in the order of the outputs."""
    loss = model.loss
    if isinstance(loss, dict):
        return [loss.get(name) for name in getattr(model, "output_names", loss)]
    return list(loss) if isinstance(loss, (list, tuple)) else [loss]


def _loss_facts(loss: Any) -> tuple[str, bool]:
    """Return the name of a loss, empty if it has none, and if it takes logits."""
    name = loss if isinstance(loss, str) else getattr(loss, "name", "")
    name = name or getattr(loss, "__name__", "")
    return name, bool(getattr(loss, "from_logits", False))


def _micro_batches(options: ModelOptions, training: bool) -> int:
    if not training:
        return 1
    if not options.pipelined:
        return options.accumulation or 1
    if options.pipeline_accumulation is None:
        raise ValueError(
            "A pipelined model needs the number of micro-batches per weight update: "
            "set `gradient_accumulation_steps_per_replica` with "
            "`set_pipelining_options`."
        )
    return options.pipeline_accumulation


def _check_optimizer(model: Any, options: ModelOptions, count: int) -> None:
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    own = optimizer.gradient_accumulation_steps
    if own:
        raise ValueError(
            "Programs of the device accumulate gradients themselves, not with the "
            f"optimizer's `gradient_accumulation_steps` (set to {own}): leave it out, "
            "and use `set_gradient_accumulation_options` or `set_pipelining_options` "
            "of the model."
        )
    minimize = getattr(type(optimizer), "minimize", None)
    inherited = getattr(keras.optimizers.Optimizer, "minimize", None)
    if (count > 1 or options.pipelined) and minimize is not inherited:
        raise ValueError(
            f"The optimizer {type(optimizer).__name__} must not override "
            "OptimizerV2.minimize when gradients are accumulated."
        )


def _build(model: Any, element_spec: Any, phase: str) -> None:
    # Layers of scripts may count on the size of the batch: it never changes here.
    symbols = tree.map_structure(
        lambda spec: tf.TensorSpec(spec.shape, spec.dtype), element_spec
    )
    if phase != "predict":
        build_for_training(model, symbols)
    elif not all(layer.built for layer in layers_inside(model)):
        x, _, _ = unpack_x_y_sample_weight(symbols)
        build_for_inference(
            model,
            tree.map_structure(
                lambda spec: keras.KerasTensor(
                    spec.shape, keras.backend.standardize_dtype(spec.dtype)
                ),
                x,
            ),
        )


def _cut(options: ModelOptions, device: Device, read: ReadModel | None) -> Cut | None:
    if not options.pipelined:
        return None
    if read is None:
        raise RuntimeError("The layer calls of a pipelined model must be known.")
    return make_cut(read.graph, options, device)


def _spec(model: Any, read: ReadModel | None, feed: Feed) -> tuple[ModelSpec, str]:
    """Return the model as the plan sees it, and why it cannot be planned, if so.

    The rules need no more of such a model than its calls.
    """
    try:
        if read is not None:
            return read.checked_spec(), ""
        x, _, _ = unpack_x_y_sample_weight(feed.element_spec)
        return read_hidden_once(model, x), ""
    except ValueError as error:
        return outline(read.graph) if read else ModelSpec((), ()), str(error)


def _as_it_runs(request: PlanRequest, count: StepCount) -> PlanRequest:
    """Return the request with the batches and steps that are really made."""
    batches = count.batches * request.instances
    return replace(request, batches=batches, steps_per_execution=count.per_execution)
