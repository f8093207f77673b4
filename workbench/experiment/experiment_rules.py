"""Fields that are fine by themselves but contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from ipu_runtime.plan.config.field import nearest
from ipu_runtime.plan.problem import Problem, Severity
from workbench.experiment.api_rules import (
    check_checkpoint_evaluation,
    check_cpu_accumulation,
    check_cpu_pipeline,
    check_estimator_padding,
    check_estimator_stages,
    check_instances,
    check_model_directory,
    check_partial_batches,
    check_source_api,
)
from workbench.experiment.data_rules import (
    check_labels,
    check_losses,
    check_samples,
    check_shapes,
)
from workbench.experiment.experiment_spec import ExperimentSpec

_DATA_FIELDS = (
    "data.dataset",
    "data.batch_size",
    "data.preparation",
    "data.train_samples",
    "data.test_samples",
    "train.steps_per_epoch",
    "train.evaluate",
    "execution.api",
    "execution.gradient_accumulation",
    "pipeline.stages",
    "pipeline.device_mapping",
    "ipu.auto_select_ipus",
)


def check_experiment(
    spec: ExperimentSpec, doubtful: Collection[str] = ()
) -> list[Problem]:
    """Return what contradicts in an experiment.

    Args:
        spec: The experiment, with defaults in place of values that are wrong.
        doubtful: Paths of those fields: rules that look at them are left out, because
            what they would say is not the user's doing.
    """
    problems: list[Problem] = []
    for rule, fields in _RULES:
        if not doubtful or not any(field in doubtful for field in fields):
            problems += rule(spec)
    return problems


ELSEWHERE = {
    "offload_activations": "activations",
    "offload_weight_update_variables": "optimizer state",
    "offload_gradient_accumulation_buffers": "sums of gradients",
    "replicated_weight_sharding": "weights",
}
"""Fields that say where a pipeline's things live, with what these are."""
_NEEDS = {
    "replicated_optimizer_state_sharding": (
        "offload_weight_update_variables",
        "only what is offloaded is shared out among replicas",
    ),
    "offload_weights": (
        "replicated_weight_sharding",
        "only weights that replicas share are offloaded",
    ),
}
"""Fields that do nothing without another."""


def _offloading(spec: ExperimentSpec) -> Iterator[Problem]:
    pipeline = spec.pipeline
    for name, what in ELSEWHERE.items():
        if getattr(pipeline, name) and not pipeline.stages:
            yield Problem(
                f"pipeline.{name}",
                f"there is no pipeline whose {what} could be elsewhere",
                "set pipeline.stages, or false",
                Severity.WARNING,
                suggestion=False,
            )
    for name, (other, problem) in _NEEDS.items():
        if getattr(pipeline, name) and not getattr(pipeline, other):
            yield Problem(
                f"pipeline.{name}",
                problem,
                f"set pipeline.{other}, or false",
                Severity.WARNING,
                suggestion=False,
            )


def _source_options(spec: ExperimentSpec) -> Iterator[Problem]:
    model = spec.model
    for name, value in (("input_shape", model.input_shape), ("classes", model.classes)):
        if value and not model.source:
            text = "has no effect without model.source"
            hint = "layers state their own shapes"
            yield Problem(f"model.{name}", text, hint, Severity.WARNING)


def _locked(spec: ExperimentSpec) -> Iterator[Problem]:
    names = [layer.name for layer in spec.model.layers if layer.kind != "Input"]
    for name in spec.pipeline.locked:
        if name not in names:
            guess = nearest(name, names)
            hint = f"did you mean {guess}?" if guess else f"valid: {', '.join(names)}"
            yield Problem("pipeline.locked", f'"{name}" is no layer', hint)


def _ipu_config(spec: ExperimentSpec) -> Iterator[Problem]:
    """Let the configuration object say what it would say when it is applied."""
    if spec.execution.api == "cpu" or not spec.ipu:
        return
    selection = spec.ipu.get("auto_select_ipus")
    if selection == 0 or (isinstance(selection, list) and 0 in selection):
        hint = "use 1 or more"
        yield Problem("ipu.auto_select_ipus", "0 IPUs are no device", hint)
    if len(spec.ipu) > 1 or selection is None:
        # Late, because most experiments only say how many IPUs they take.
        from ipu_runtime.config import config_from_fields
        from ipu_runtime.configuring.config_checks import check_config

        try:
            check_config(config_from_fields(spec.ipu), on_ipu_model=False)
        except Exception as error:  # The real ones raise plain Exception too.
            yield Problem("ipu", str(error), exception=type(error).__name__)
    if isinstance(selection, list) and len(selection) > 1:
        yield Problem(
            "ipu.auto_select_ipus",
            f"{selection} makes {len(selection)} devices; a run uses the first",
            f"use {selection[0]}",
            Severity.WARNING,
            suggestion=selection[0],
        )


_Rule = Callable[[ExperimentSpec], Iterator[Problem]]
_RULES: tuple[tuple[_Rule, tuple[str, ...]], ...] = (
    (check_labels, ("data.labels", "train.loss", "train.losses")),
    (check_losses, ("train.loss", "train.losses", "model.layers")),
    (check_cpu_pipeline, ("execution.api", "pipeline.stages")),
    (check_cpu_accumulation, ("execution.api", "execution.gradient_accumulation")),
    (check_instances, ("execution.api", "execution.instances")),
    (check_partial_batches, ("execution.api", "data.preparation")),
    (
        _offloading,
        (
            "pipeline.stages",
            *(f"pipeline.{name}" for name in (*ELSEWHERE, *_NEEDS)),
        ),
    ),
    (_source_options, ("model.source",)),
    (check_source_api, ("execution.api", "pipeline.stages", "model.layers")),
    (_locked, ("pipeline.locked", "model.layers")),
    (check_estimator_stages, ("execution.api", "pipeline.stages")),
    (check_estimator_padding, ("execution.api", "data.preparation")),
    (
        check_checkpoint_evaluation,
        ("execution.api", "execution.model_dir", "train.test_only", "train.evaluate"),
    ),
    (check_model_directory, ("execution.api", "execution.model_dir")),
    (_ipu_config, ("execution.api", "ipu")),
    (check_samples, _DATA_FIELDS),
    (check_shapes, ("data.dataset", "train.loss", "train.losses", "model.layers")),
)
"""Every rule with the fields that it looks at."""
