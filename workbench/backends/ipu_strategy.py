"""Keras under `IPUStrategy`: plain, replicated or pipelined on the emulated device."""

from __future__ import annotations

from typing import Any

from ipu_runtime.config import config_from_fields
from ipu_runtime.distributed.popdist_strategy import PopDistStrategy
from ipu_runtime.engine.feeds.feed import OrderedFeed
from ipu_runtime.engine.watch.observer import observed_by
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.keras.pipeline_stage import PipelineStage
from ipu_runtime.ops.pipelining_ops import PipelineSchedule, RecomputationMode
from ipu_runtime.plan.placements import PLACEMENTS
from ipu_runtime.popdist.tensorflow import set_ipu_config
from ipu_runtime.system.emulated_device import emulated_system
from workbench.data.dataset import PreparedPart, load_prepared
from workbench.data.epoch_order import training_order
from workbench.data.sample_counts import (
    evaluation_steps_per_execution,
    is_steady,
    training_steps_per_execution,
)
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.locations import hardware_file
from workbench.runs.events import Compiling
from workbench.runs.keras_epochs import train_and_evaluate
from workbench.runs.model_builder import (
    build_keras_model,
    compile_arguments,
    stage_names,
)
from workbench.runs.run_context import RunContext
from workbench.runs.run_observer import RunObserver
from workbench.training.stages import assign_stages


def train(spec: ExperimentSpec, context: RunContext) -> None:
    """Train and evaluate with the extended `fit` and `evaluate`."""
    context.emit(Compiling("loading the data"))
    data = load_prepared(spec, lambda text: context.emit(Compiling(text)))
    context.emit(Compiling(f"building the model; {data.report()}"))
    instance = context.instance
    config = config_from_fields(spec.ipu)
    if instance.count > 1:
        set_ipu_config(config, configure_device=False)
    config.configure_ipu_system()
    observer = RunObserver(context)
    strategy = PopDistStrategy() if instance.count > 1 else IPUStrategy()
    with (
        emulated_system(
            spec.execution.system,
            hardware_file(),
            spec.execution.hosts,
            steady=is_steady(spec),
        ),
        strategy.scope(),
        observed_by(observer),
    ):
        model = compiled_model(spec)
        training = _feed(data.train, spec.data.batch_size)
        testing = _feed(data.test, spec.data.batch_size)
        order = training_order(spec)

        def train_epoch(epoch: int) -> dict[str, float]:
            training.order = order.share(epoch, instance.index, instance.count)
            model.steps_per_execution = training_steps_per_execution(spec)
            history = model.fit(
                training, initial_epoch=epoch - 1, epochs=epoch, verbose=0
            )
            return {name: float(values[-1]) for name, values in history.history.items()}

        def evaluate() -> dict[str, float]:
            model.steps_per_execution = evaluation_steps_per_execution(spec)
            logs: dict[str, float] = model.evaluate(
                testing, verbose=0, return_dict=True
            )
            return logs

        train_and_evaluate(spec, context, observer, model, train_epoch, evaluate)


def compiled_model(spec: ExperimentSpec) -> Any:
    """Return the compiled model, with the options of the experiment."""
    pipelined = bool(spec.pipeline.stages)
    execution = spec.execution
    # PopDistStrategy has no such scope.
    scope = PipelineStage if pipelined and execution.instances == 1 else None
    model = build_keras_model(spec, scope)
    if pipelined:
        if scope is None:
            assign_stages(model, stage_names(spec))
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=execution.gradient_accumulation,
            device_mapping=list(spec.pipeline.device_mapping) or None,
            gradient_accumulation_reduction_method=execution.accumulation_reduction,
            pipeline_schedule=PipelineSchedule[spec.pipeline.schedule],
            recomputation_mode=RecomputationMode[spec.pipeline.recomputation],
            **{name: getattr(spec.pipeline, name) for name in PLACEMENTS},
        )
    else:
        model.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=execution.gradient_accumulation,
            gradient_accumulation_reduction_method=execution.accumulation_reduction,
        )
    model.set_replication_options(execution.metric_reduction)
    model.compile(
        **compile_arguments(spec),
        steps_per_execution=training_steps_per_execution(spec),
        jit_compile=False,
    )
    return model


def _feed(part: PreparedPart, batch_size: int) -> OrderedFeed:
    arrays: tuple[Any, ...] = (part.x, part.y)
    if part.sample_weight is not None:
        arrays += (part.sample_weight,)
    return OrderedFeed(arrays, batch_size)
