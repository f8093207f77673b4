"""Fields that are fine by themselves but contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ipu_runtime.config import config_from_fields
from ipu_runtime.config_checks import check_config
from ipu_runtime.plan.problem import Problem, Severity
from workbench.core.dataset_facts import DatasetError, DatasetFacts, dataset_facts
from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.resolved_model import resolved
from workbench.core.sample_counts import count

_ESTIMATORS = ("ipu_estimator", "ipu_pipeline_estimator")
_LABELS_OF_LOSS = {
    "categorical_crossentropy": "categorical",
    "sparse_categorical_crossentropy": "sparse",
}


def check_experiment(spec: ExperimentSpec) -> list[Problem]:
    """Return what contradicts in an experiment whose fields are valid one by one."""
    problems = [
        *_labels_and_loss(spec),
        *_interface(spec),
        *_estimator(spec),
        *_ipu_config(spec),
    ]
    try:
        facts = dataset_facts(spec.data.dataset)
    except DatasetError as error:
        return [*problems, Problem("data.dataset", error.problem, error.hint)]
    return [*problems, *_samples(spec, facts), *_shapes(spec, facts)]


def _labels_and_loss(spec: ExperimentSpec) -> Iterator[Problem]:
    wanted = _LABELS_OF_LOSS.get(spec.train.loss)
    if wanted and wanted != spec.data.labels:
        by_labels = {labels: loss for loss, labels in _LABELS_OF_LOSS.items()}
        yield Problem(
            "train.loss",
            f"{spec.train.loss} needs {wanted} labels, but data.labels is "
            f"{spec.data.labels}",
            f"use {by_labels[spec.data.labels]}, or data.labels = {wanted}",
            suggestion=by_labels[spec.data.labels],
        )


def _interface(spec: ExperimentSpec) -> Iterator[Problem]:
    api, data, pipeline = spec.execution.api, spec.data, spec.pipeline
    if api == "cpu":
        if pipeline.stages:
            yield Problem(
                "pipeline.stages",
                "plain Keras on the CPU has no pipeline",
                "leave the stages out, or use execution.api = ipu_strategy",
                suggestion=[],
            )
        if spec.execution.gradient_accumulation > 1:
            yield Problem(
                "execution.gradient_accumulation",
                f"{spec.execution.gradient_accumulation} is not available with "
                "execution.api = cpu",
                "use 1, or execution.api = ipu_strategy",
                suggestion=1,
            )
    elif data.preparation == "none":
        yield Problem(
            "data.preparation",
            "none keeps a partial batch, which an IPU program cannot take",
            "valid on the IPU: trim, repeat or pad",
            suggestion="trim",
        )
    if data.preparation == "repeat" and not spec.train.steps_per_epoch:
        yield Problem(
            "train.steps_per_epoch",
            "is missing: repeated data have no end",
            "say how many batches an epoch has, for example "
            f"{_whole_batches(spec) or 1}",
            suggestion=_whole_batches(spec) or 1,
        )
    if api == "ipu_strategy" and pipeline.offload_activations and not pipeline.stages:
        yield Problem(
            "pipeline.offload_activations",
            "there is no pipeline whose activations could be offloaded",
            "set pipeline.stages, or false",
            Severity.WARNING,
            suggestion=False,
        )


def _estimator(spec: ExperimentSpec) -> Iterator[Problem]:
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
    if api in _ESTIMATORS and spec.data.preparation == "pad":
        yield Problem(
            "data.preparation",
            "pad needs sample weights, which the estimators here do not take",
            "use trim or repeat",
            suggestion="trim",
        )
    if spec.train.test_only:
        if api not in _ESTIMATORS:
            yield Problem(
                "train.test_only",
                f"{api} has no model directory to load a checkpoint from",
                f"use execution.api = {' or '.join(_ESTIMATORS)}",
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
    if spec.execution.model_dir and api not in _ESTIMATORS:
        yield Problem(
            "execution.model_dir",
            f"has no effect with execution.api = {api}",
            "only estimators have a model directory",
            Severity.WARNING,
        )


def _ipu_config(spec: ExperimentSpec) -> Iterator[Problem]:
    """Let the configuration object say what it would say when it is applied."""
    if spec.execution.api == "cpu" or not spec.ipu:
        return
    selection = spec.ipu.get("auto_select_ipus")
    if selection == 0 or (isinstance(selection, list) and 0 in selection):
        hint = "use 1 or more"
        yield Problem("ipu.auto_select_ipus", "0 IPUs are no device", hint)
    if len(spec.ipu) > 1 or selection is None:
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


def _samples(spec: ExperimentSpec, facts: DatasetFacts) -> Iterator[Problem]:
    for name, asked, available in (
        ("train_samples", spec.data.train_samples, facts.train_samples),
        ("test_samples", spec.data.test_samples, facts.test_samples),
    ):
        if asked > available and spec.data.dataset != "synthetic":
            yield Problem(
                f"data.{name}",
                f"{asked} are more than the {available} of {spec.data.dataset}",
                f"use {available} or less, or 0 for all",
                suggestion=0,
            )
    counts = count(spec)
    steps = spec.train.steps_per_epoch
    if spec.data.preparation != "repeat" and steps:
        available = _whole_batches(spec)
        if steps > available:
            yield Problem(
                "train.steps_per_epoch",
                f"{steps} batches are more than the {available} of the data",
                f"use {available}, or data.preparation = repeat",
                suggestion=available,
            )
    for part, counted in (("train", counts.train), ("test", counts.test)):
        needed = part == "train" or spec.train.evaluate
        if needed and not counted.batches:
            yield Problem(
                f"data.{part}_samples",
                f"{counted.available} samples make no batch of "
                f"{spec.data.batch_size} for every replica and micro-batch",
                "use more samples or a smaller data.batch_size",
            )


def _whole_batches(spec: ExperimentSpec) -> int:
    return count(spec).train.available // spec.data.batch_size


def _shapes(spec: ExperimentSpec, facts: DatasetFacts) -> Iterator[Problem]:
    model, _ = resolved(spec.model)
    if model is None:
        return
    if len(model.input_layers) != 1 or len(model.outputs) != 1:
        if spec.data.dataset != "synthetic":
            yield Problem(
                "model.layers",
                f"has {len(model.input_layers)} inputs and {len(model.outputs)} "
                "outputs, but the data have one sample and one label each",
                "use one input and one output, or data.dataset = synthetic",
            )
        return
    wanted = model.input_layers[0].output_shape
    if facts.sample_shape and prod(wanted) != prod(facts.sample_shape):
        yield Problem(
            "model.layers[0].shape",
            f"{_by_x(wanted)} does not suit the data, whose samples are "
            f"{_by_x(facts.sample_shape)}",
            f"use shape = {list(facts.sample_shape)}",
            suggestion=list(facts.sample_shape),
        )
    output = next(layer for layer in model.layers if layer.name == model.outputs[0])
    width = output.output_shape[-1] if output.output_shape else 1
    if facts.classes is None or spec.train.loss == "mse":
        return
    exact = spec.data.labels == "categorical"
    if width < facts.classes or (exact and width != facts.classes):
        yield Problem(
            "model.layers",
            f"the last layer {output.name} has {width} outputs, but the data have "
            f"{facts.classes} classes",
            f"give it {facts.classes}",
        )


def _by_x(shape: tuple[int, ...]) -> str:
    return "x".join(str(extent) for extent in shape)
