"""What the plan is asked for an experiment."""

from __future__ import annotations

from ipu_runtime.plan.config_fields import IPU_CONFIG_FIELD
from ipu_runtime.plan.plan import PipelineRequest, Plan, PlanRequest
from ipu_runtime.plan.schedule import (
    Recomputation,
    ScheduleKind,
    automatic_recomputation,
)
from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.locations import hardware_file
from workbench.core.resolved_model import resolved
from workbench.core.sample_counts import count, training_steps_per_execution
from workbench.core.topology import selected_ipus


def plan_request(spec: ExperimentSpec) -> PlanRequest:
    """Return what the plan depends on; the experiment must be valid."""
    model, problems = resolved(spec.model)
    if model is None:
        raise ValueError("; ".join(str(problem) for problem in problems))
    output = next(layer for layer in model.layers if layer.name == model.outputs[0])
    classes = output.output_shape[-1] if output.output_shape else 1
    return PlanRequest(
        model=model,
        batch_size=spec.data.batch_size,
        batches=count(spec).train.batches,
        epochs=spec.train.epochs,
        label_values=classes if spec.data.labels == "categorical" else 1,
        steps_per_execution=training_steps_per_execution(spec),
        gradient_accumulation=spec.execution.gradient_accumulation,
        optimizer=spec.train.optimizer,
        training=not spec.train.test_only,
        ipus=selected_ipus(spec),
        system=spec.execution.system,
        pipeline=_pipeline(spec),
        config={
            path: value
            for path, value in spec.ipu.items()
            if value != IPU_CONFIG_FIELD[path].default
        },
        hardware_file=hardware_file(),
    )


def plan_experiment(spec: ExperimentSpec, *, with_remedies: bool = True) -> Plan:
    """Return the modelled effect of an experiment; on the CPU, as if on one IPU."""
    # Late, because a list of presets needs requests at most, and no cost model.
    from ipu_runtime.plan.planner import make_plan

    return make_plan(plan_request(spec), with_remedies=with_remedies)


def _pipeline(spec: ExperimentSpec) -> PipelineRequest | None:
    pipeline = spec.pipeline
    if not pipeline.stages:
        return None
    schedule = ScheduleKind(pipeline.schedule)
    return PipelineRequest(
        stage_of_layer=pipeline.stages,
        schedule=schedule,
        recomputation=_recomputation(spec, schedule),
        device_mapping=pipeline.device_mapping,
        offload_activations=pipeline.offload_activations,
    )


def _recomputation(spec: ExperimentSpec, schedule: ScheduleKind) -> Recomputation:
    """`Auto` is what suits the schedule; nothing is recomputed unless allowed."""
    if not spec.ipu.get("allow_recompute", False):
        return Recomputation.OFF
    if spec.pipeline.recomputation != "Auto":
        return Recomputation(spec.pipeline.recomputation)
    return automatic_recomputation(schedule)
