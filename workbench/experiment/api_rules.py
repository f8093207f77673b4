"""What the interface that runs an experiment can do, and what it cannot."""

from __future__ import annotations

from collections.abc import Iterator

from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.rules.count_rules import ESTIMATORS
from workbench.experiment.experiment_fields import INSTANCE_APIS
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.models.model_source import CAPTURE_ENDING


def check_cpu_pipeline(spec: ExperimentSpec) -> Iterator[Problem]:
    """The CPU has no stages."""
    if spec.execution.api == "cpu" and spec.pipeline.stages:
        yield Problem(
            "pipeline.stages",
            "plain Keras on the CPU has no pipeline",
            "leave the stages out, or use execution.api = ipu_strategy",
            suggestion=[],
        )


def check_cpu_accumulation(spec: ExperimentSpec) -> Iterator[Problem]:
    """The CPU adds up no gradients."""
    accumulation = spec.execution.gradient_accumulation
    if spec.execution.api == "cpu" and accumulation > 1:
        yield Problem(
            "execution.gradient_accumulation",
            f"{accumulation} is not available with execution.api = cpu",
            "use 1, or execution.api = ipu_strategy",
            suggestion=1,
        )


def check_instances(spec: ExperimentSpec) -> Iterator[Problem]:
    """Some interfaces run in one process only."""
    api, instances = spec.execution.api, spec.execution.instances
    if instances > 1 and is_captured(spec):
        text = f"{instances} has no effect on a script, which poprun shares out"
        yield Problem("execution.instances", text, "use 1", suggestion=1)
    elif instances > 1 and api not in INSTANCE_APIS:
        yield Problem(
            "execution.instances",
            f"{instances} processes are not available with execution.api = {api}",
            f"use 1, or execution.api = {' or '.join(INSTANCE_APIS)}",
            suggestion=1,
        )


def check_partial_batches(spec: ExperimentSpec) -> Iterator[Problem]:
    """Shapes are static on the device."""
    if spec.execution.api != "cpu" and spec.data.preparation == "none":
        yield Problem(
            "data.preparation",
            "none keeps a partial batch, which an IPU program cannot take",
            "valid on the IPU: trim, repeat or pad",
            suggestion="trim",
        )


def is_captured(spec: ExperimentSpec) -> bool:
    """Tell whether a script has the model, and is what runs it."""
    return spec.model.source.endswith(CAPTURE_ENDING)


def check_source_api(spec: ExperimentSpec) -> Iterator[Problem]:
    """Not every interface, and no pipeline, takes every model of the user's own."""
    if spec.model.source and not is_captured(spec) and spec.execution.api in ESTIMATORS:
        yield Problem(
            "execution.api",
            f"{spec.execution.api} makes its model of layers, not of model.source",
            "use ipu_strategy or cpu",
            suggestion="ipu_strategy",
        )
    read = spec.model.read
    if read is not None and read.one_block and spec.pipeline.stages:
        yield Problem(
            "pipeline.stages",
            f"{spec.model.source} is a subclass of Model, one block without stages",
            "leave the stages out, or make it a Functional model",
            suggestion=[],
        )


def check_estimator_stages(spec: ExperimentSpec) -> Iterator[Problem]:
    """One estimator has stages, the other has none."""
    api, stages = spec.execution.api, spec.pipeline.stages
    if api == "ipu_estimator" and stages:
        yield Problem(
            "execution.api",
            "ipu_estimator has no pipeline, but pipeline.stages is set",
            "use ipu_pipeline_estimator, or leave the stages out",
            suggestion="ipu_pipeline_estimator",
        )
    if api == "ipu_pipeline_estimator" and not stages:
        yield Problem(
            "pipeline.stages",
            "ipu_pipeline_estimator needs the stage of every layer",
            "for example ipu-workbench balance PRESET --stages 2",
        )


def check_estimator_padding(spec: ExperimentSpec) -> Iterator[Problem]:
    """Estimators know no sample weights."""
    if spec.execution.api in ESTIMATORS and spec.data.preparation == "pad":
        yield Problem(
            "data.preparation",
            "pad needs sample weights, which the estimators here do not take",
            "use trim or repeat",
            suggestion="trim",
        )


def check_checkpoint_evaluation(spec: ExperimentSpec) -> Iterator[Problem]:
    """A checkpoint is evaluated where there is one."""
    api = spec.execution.api
    if spec.train.test_only and not is_captured(spec):
        if api not in ESTIMATORS:
            yield Problem(
                "train.test_only",
                f"{api} has no model directory to load a checkpoint from",
                f"use execution.api = {' or '.join(ESTIMATORS)}",
                suggestion=False,
            )
        elif not spec.execution.model_dir:
            yield Problem(
                "execution.model_dir",
                "is missing: train.test_only evaluates a checkpoint in it",
                "give the model directory of an earlier run",
            )
        if not spec.train.evaluate:
            yield Problem(
                "train.evaluate",
                "false leaves nothing to do when train.test_only is true",
                "use true",
                suggestion=True,
            )


def check_model_directory(spec: ExperimentSpec) -> Iterator[Problem]:
    """Only estimators keep a model directory."""
    api = spec.execution.api
    if spec.execution.model_dir and api not in ESTIMATORS:
        yield Problem(
            "execution.model_dir",
            f"has no effect with execution.api = {api}",
            "only estimators have a model directory",
            Severity.WARNING,
        )
