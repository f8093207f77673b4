"""What `fit`, `evaluate` and `predict` have in common: checks, programs, clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from keras.src import tree
from keras.src.trainers.data_adapters.data_adapter_utils import (
    unpack_x_y_sample_weight,
)

from ipu_runtime.engine.accumulation import Accumulation
from ipu_runtime.engine.batch_callbacks import BatchCallbacks
from ipu_runtime.engine.clock import Workload, start_clock
from ipu_runtime.engine.device import Device
from ipu_runtime.engine.epoch import Work
from ipu_runtime.engine.feeds import Feed
from ipu_runtime.engine.kept_programs import programs_of
from ipu_runtime.engine.keras_reader import ReadModel, read_graph
from ipu_runtime.engine.model_graph import model_graph, runs_as_written
from ipu_runtime.engine.model_options import (
    ModelOptions,
    ReplicatedMetricReductionMethod,
)
from ipu_runtime.engine.pipeline_setup import Cut, check_device, make_cut
from ipu_runtime.engine.programs import Programs, Setting
from ipu_runtime.engine.results import AveragedResults, Logs, reduce_results
from ipu_runtime.engine.session_notes import (
    tell_of_steps,
    warn_of_groups,
    warn_of_statistics,
)
from ipu_runtime.engine.step_count import StepCount, count_steps


@dataclass(frozen=True)
class Session:
    """One call of `fit`, `evaluate` or `predict`, checked and ready to run."""

    model: Any
    options: ModelOptions
    device: Device
    phase: str
    feed: Feed
    count: StepCount
    programs: Programs
    work: Work
    asynchronous: bool

    def source(self) -> Any:
        """Return where an epoch's batches come from."""
        return self.feed.source()


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
    """Check the call, build the model, and find or build its program."""
    training = phase == "train"
    replicas = check_device(options, device)
    per_execution = model.steps_per_execution if model.compiled else 1
    count = count_steps(feed, steps, epochs, replicas, per_execution)
    micro_batches = _micro_batches(options, training)
    if training:
        _check_accumulation(model, options, count.per_execution, per_execution)
    _build(model, feed.element_spec, phase)
    read = _read(model)
    cut = _cut(options, device, read, training)
    if cut is not None:
        cut.check_count(micro_batches if training else count.per_execution, training)
    accumulation = Accumulation(
        options.accumulation_method,
        micro_batches,
        replicas,
        cut.accumulator_dtype if cut else options.accumulation_kwargs.get("dtype"),
    )
    _, targets, _ = unpack_x_y_sample_weight(feed.element_spec)
    clock = start_clock(
        model,
        read,
        device,
        Workload(
            batch_size=feed.batch_size,
            batches=count.batches,
            epochs=epochs,
            steps_per_execution=count.per_execution,
            accumulation=micro_batches,
            training=training,
            targets=targets,
            pipeline=cut.request() if cut else None,
        ),
    )
    if training:
        tell_of_steps(count, accumulation, feed.batch_size)
        warn_of_statistics(model, cut)
        warn_of_groups(device, replicas)
    programs = programs_of(model, read, replicas, device, phase)
    averaged = options.accumulate_outfeed and options.pipelined and phase != "predict"
    asynchronous = options.asynchronous_callbacks and not averaged
    in_run = micro_batches if training else count.per_execution
    outfeed = AveragedResults(in_run, replicas) if averaged else None
    setting = Setting(
        phase,
        feed,
        count,
        accumulation,
        cut,
        (asynchronous or averaged) and phase != "predict",
    )
    program, pieces = programs.get(setting)
    micro_batch = programs.micro_batch
    work = Work(
        phase=phase,
        program=program,
        count=count,
        clock=clock,
        logs=outfeed.logs if outfeed else lambda: _logs(programs, options),
        before_execution=micro_batch.statistics.spread,
        after_execution=lambda: _keep(programs),
        joined=False,
        stop_training=lambda: training and model.stop_training,
        collected=outfeed.add if outfeed else lambda results: None,
        pieces=pieces,
    )
    return Session(
        model, options, device, phase, feed, count, programs, work, asynchronous
    )


def join_executions(session: Session, callbacks: BatchCallbacks) -> None:
    """Let executions run into each other if nobody would notice."""
    micro_batch = session.programs.micro_batch
    own_statistics = session.count.replicas > 1 and micro_batch.statistics.variables
    session.work.joined = not (callbacks.listened_to or own_statistics)


def _keep(programs: Programs) -> None:
    programs.micro_batch.statistics.keep_mean()
    programs.micro_batch.metrics.keep_last()


def _logs(programs: Programs, options: ModelOptions) -> Logs:
    method = options.metric_reduction
    if options.pipelined:
        method = ReplicatedMetricReductionMethod.NONE
    return reduce_results(programs.results.by_replica(), method)


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


def _check_accumulation(
    model: Any, options: ModelOptions, lowered: int, compiled: int
) -> None:
    count = _micro_batches(options, training=True)
    for per_execution in (compiled, lowered):
        if per_execution % count:
            raise RuntimeError(
                f"The {'pipelined ' if options.pipelined else ''}model has been "
                "configured to use gradient accumulation for training, however the "
                "current `steps_per_execution` value (set to "
                f"{per_execution}) is not divisible by "
                f"`gradient_accumulation_steps_per_replica` (set to {count}); the "
                f"nearest is {max(1, round(per_execution / count)) * count}."
            )
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    minimize = getattr(type(optimizer), "minimize", None)
    inherited = getattr(type(optimizer).__base__, "minimize", None)
    if (count > 1 or options.pipelined) and minimize is not inherited:
        raise ValueError(
            f"The optimizer {type(optimizer).__name__} must not override "
            "OptimizerV2.minimize when gradients are accumulated."
        )


def _build(model: Any, element_spec: Any, phase: str) -> None:
    symbols = tree.map_structure(
        lambda spec: tf.TensorSpec((None, *spec.shape[1:]), spec.dtype), element_spec
    )
    if phase != "predict":
        model._symbolic_build(data_batch=symbols)
    elif not all(layer.built for layer in model._flatten_layers()):
        x, _, _ = unpack_x_y_sample_weight(symbols)
        import keras

        keras.src.backend.compute_output_spec(
            model,
            tree.map_structure(
                lambda spec: keras.KerasTensor(
                    spec.shape, keras.backend.standardize_dtype(spec.dtype)
                ),
                x,
            ),
            training=False,
        )


def _read(model: Any) -> ReadModel | None:
    """Read the layer calls, where running them one by one is what the model does."""
    network = getattr(model, "traced_network", None)
    if network is None and not runs_as_written(model):
        return None
    graph = model_graph(network if network is not None else model)
    return read_graph(graph, model.compute_dtype)


def _cut(
    options: ModelOptions, device: Device, read: ReadModel | None, training: bool
) -> Cut | None:
    if not options.pipelined:
        return None
    if read is None:
        raise RuntimeError("The layer calls of a pipelined model must be known.")
    return make_cut(read.graph, options, device, training)
