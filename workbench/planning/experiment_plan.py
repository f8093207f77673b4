"""What the plan is asked for an experiment."""

from __future__ import annotations

from dataclasses import replace

from ipu_runtime.plan.config.config_fields import IPU_CONFIG_FIELD
from ipu_runtime.plan.placements import PLACEMENTS
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.request import PipelineRequest, PlanRequest
from ipu_runtime.plan.schedule.schedule import (
    Recomputation,
    ScheduleKind,
    automatic_recomputation,
)
from ipu_runtime.system.emulated_device import fields_in_force
from workbench.data.model_tensors import compared_outputs
from workbench.data.sample_counts import (
    count,
    evaluation_steps_per_execution,
    is_steady,
    training_steps_per_execution,
)
from workbench.experiment.api_rules import is_captured
from workbench.experiment.experiment_spec import Execution, ExperimentSpec
from workbench.experiment.losses import label_values
from workbench.experiment.resolved_model import resolved
from workbench.experiment.topology import selected_ipus, topology
from workbench.locations import hardware_file

CPU = "cpu"
NOT_MODELLED = (
    "execution.api = cpu is stock Keras on this machine; only IPUs are modelled"
)


def plan_request(spec: ExperimentSpec) -> PlanRequest:
    """Return what the plan depends on; the experiment must be valid."""
    model, problems = resolved(spec.model)
    if model is None:
        raise ValueError("; ".join(str(problem) for problem in problems))
    request = PlanRequest(
        model=model,
        batch_size=spec.data.batch_size,
        batches=count(spec).train.batches,
        label_values=sum(
            label_values(loss.labels or spec.data.labels, end.shape)
            for end, loss in compared_outputs(spec)
        ),
        steps_per_execution=training_steps_per_execution(spec),
        gradient_accumulation=spec.execution.gradient_accumulation,
        sums_micro_batches=spec.execution.gradient_accumulation > 1
        and spec.execution.accumulation_reduction == "sum",
        sums_replicas=topology(spec).replicas > 1 and sums_replicas(spec.execution),
        # What a script was captured of sets its rate itself.
        learning_rate=0.0 if is_captured(spec) else spec.train.learning_rate,
        optimizer=spec.train.optimizer,
        api=spec.execution.api,
        ipus=selected_ipus(spec),
        system=spec.execution.system,
        pipeline=_pipeline(spec),
        config={
            path: value
            for path, value in fields_in_force(spec.ipu).items()
            if value != IPU_CONFIG_FIELD[path].default
        },
        hardware_file=hardware_file(),
        steady=is_steady(spec),
        instances=spec.execution.instances,
        hosts=spec.execution.hosts,
    )
    if not spec.train.test_only:
        return request
    return _on_test_data(spec, request)


def sums_replicas(execution: Execution) -> bool:
    """`IPUStrategy` sums them; `PopDistStrategy` and estimators take their mean."""
    return execution.api == "ipu_strategy" and execution.instances == 1


def inference_request(spec: ExperimentSpec) -> PlanRequest:
    """Return what the plan of predictions on the test data depends on."""
    return replace(_on_test_data(spec, plan_request(spec)), label_values=0)


def _on_test_data(spec: ExperimentSpec, request: PlanRequest) -> PlanRequest:
    return replace(
        request,
        training=False,
        batches=count(spec).test.batches,
        steps_per_execution=evaluation_steps_per_execution(spec),
        gradient_accumulation=1,
        sums_micro_batches=False,
        sums_replicas=False,
        learning_rate=0.0,
        optimizer="sgd",
    )


def plan_experiment(
    spec: ExperimentSpec, *, with_remedies: bool = True, with_layers: bool = True
) -> Plan:
    """Return the modelled effect of an experiment; on a CPU, nothing is modelled."""
    if spec.execution.api == CPU:
        return _on_cpu(plan_request(spec))
    # Late, because a list of presets needs requests at most, and no cost model.
    from ipu_runtime.plan.planner import make_plan

    return make_plan(
        plan_request(spec), with_remedies=with_remedies, with_layers=with_layers
    )


def plan_inference(spec: ExperimentSpec) -> Plan:
    """Return the modelled effect of predictions on the test data."""
    if spec.execution.api == CPU:
        return _on_cpu(inference_request(spec))
    # Late, as above.
    from ipu_runtime.plan.planner import make_plan

    return make_plan(inference_request(spec))


def _on_cpu(request: PlanRequest) -> Plan:
    """Return what stock Keras does; a figure of a device would be of another run."""
    return Plan(
        request,
        (),
        replicas=1,
        steps_per_epoch=request.batches,
        steps_per_execution=1,
        executions_per_epoch=request.batches,
        updates_per_epoch=request.batches if request.training else 0,
        not_modelled=NOT_MODELLED,
    )


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
        **{own: getattr(pipeline, name) for name, own in PLACEMENTS.items()},
    )


def _recomputation(spec: ExperimentSpec, schedule: ScheduleKind) -> Recomputation:
    """`Auto` is what suits the schedule; nothing is recomputed unless allowed."""
    if not spec.ipu.get("allow_recompute", False):
        return Recomputation.OFF
    if spec.pipeline.recomputation != "Auto":
        return Recomputation(spec.pipeline.recomputation)
    return automatic_recomputation(schedule)
