"""Fields that are fine by themselves but contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from math import prod

from ipu_runtime.config import config_from_fields
from ipu_runtime.configuring.config_checks import check_config
from ipu_runtime.plan.config.field import nearest
from ipu_runtime.plan.problem import Problem, Severity
from workbench.core.data.dataset_facts import (
    DatasetError,
    DatasetFacts,
    data_facts,
    fills,
    labels_beyond,
)
from workbench.core.data.image_folder import COLOR_MODES
from workbench.core.data.model_tensors import tensor_problems
from workbench.core.data.sample_counts import count
from workbench.core.experiment.experiment_fields import INSTANCE_APIS
from workbench.core.experiment.experiment_spec import ExperimentSpec
from workbench.core.experiment.resolved_model import resolved
from workbench.core.models.model_source import CAPTURE_ENDING

_ESTIMATORS = ("ipu_estimator", "ipu_pipeline_estimator")
_LABELS_OF_LOSS = {
    "categorical_crossentropy": "categorical",
    "sparse_categorical_crossentropy": "sparse",
}


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


def _cpu_pipeline(spec: ExperimentSpec) -> Iterator[Problem]:
    if spec.execution.api == "cpu" and spec.pipeline.stages:
        yield Problem(
            "pipeline.stages",
            "plain Keras on the CPU has no pipeline",
            "leave the stages out, or use execution.api = ipu_strategy",
            suggestion=[],
        )


def _cpu_accumulation(spec: ExperimentSpec) -> Iterator[Problem]:
    accumulation = spec.execution.gradient_accumulation
    if spec.execution.api == "cpu" and accumulation > 1:
        yield Problem(
            "execution.gradient_accumulation",
            f"{accumulation} is not available with execution.api = cpu",
            "use 1, or execution.api = ipu_strategy",
            suggestion=1,
        )


def _instances(spec: ExperimentSpec) -> Iterator[Problem]:
    api, instances = spec.execution.api, spec.execution.instances
    if instances > 1 and _is_captured(spec):
        text = f"{instances} has no effect on a script, which poprun shares out"
        yield Problem("execution.instances", text, "use 1", suggestion=1)
    elif instances > 1 and api not in INSTANCE_APIS:
        yield Problem(
            "execution.instances",
            f"{instances} processes are not available with execution.api = {api}",
            f"use 1, or execution.api = {' or '.join(INSTANCE_APIS)}",
            suggestion=1,
        )


def _partial_batches(spec: ExperimentSpec) -> Iterator[Problem]:
    if spec.execution.api != "cpu" and spec.data.preparation == "none":
        yield Problem(
            "data.preparation",
            "none keeps a partial batch, which an IPU program cannot take",
            "valid on the IPU: trim, repeat or pad",
            suggestion="trim",
        )


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


def _is_captured(spec: ExperimentSpec) -> bool:
    """Tell whether a script has the model, and is what runs it."""
    return spec.model.source.endswith(CAPTURE_ENDING)


def _source_options(spec: ExperimentSpec) -> Iterator[Problem]:
    model = spec.model
    for name, value in (("input_shape", model.input_shape), ("classes", model.classes)):
        if value and not model.source:
            text = "has no effect without model.source"
            hint = "layers state their own shapes"
            yield Problem(f"model.{name}", text, hint, Severity.WARNING)


def _source_api(spec: ExperimentSpec) -> Iterator[Problem]:
    if (
        spec.model.source
        and not _is_captured(spec)
        and spec.execution.api in _ESTIMATORS
    ):
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


def _locked(spec: ExperimentSpec) -> Iterator[Problem]:
    names = [layer.name for layer in spec.model.layers if layer.kind != "Input"]
    for name in spec.pipeline.locked:
        if name not in names:
            guess = nearest(name, names)
            hint = f"did you mean {guess}?" if guess else f"valid: {', '.join(names)}"
            yield Problem("pipeline.locked", f'"{name}" is no layer', hint)


def _estimator_stages(spec: ExperimentSpec) -> Iterator[Problem]:
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


def _estimator_padding(spec: ExperimentSpec) -> Iterator[Problem]:
    if spec.execution.api in _ESTIMATORS and spec.data.preparation == "pad":
        yield Problem(
            "data.preparation",
            "pad needs sample weights, which the estimators here do not take",
            "use trim or repeat",
            suggestion="trim",
        )


def _test_only(spec: ExperimentSpec) -> Iterator[Problem]:
    api = spec.execution.api
    if spec.train.test_only and not _is_captured(spec):
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


def _model_directory(spec: ExperimentSpec) -> Iterator[Problem]:
    api = spec.execution.api
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


def _samples(spec: ExperimentSpec) -> Iterator[Problem]:
    try:
        facts = data_facts(spec.data)
    except DatasetError as error:
        yield Problem("data.dataset", error.problem, error.hint)
        return
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
    whole = counts.train.available // spec.data.batch_size
    if spec.data.preparation == "repeat" and not steps:
        yield Problem(
            "train.steps_per_epoch",
            "is missing: repeated data have no end",
            f"say how many batches an epoch has, for example {max(whole, 1)}",
            suggestion=max(whole, 1),
        )
    elif spec.data.preparation != "repeat" and steps > whole:
        yield Problem(
            "train.steps_per_epoch",
            f"{steps} batches are more than the {whole} of the data",
            f"use {whole}, or data.preparation = repeat",
            suggestion=whole,
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


def _shapes(spec: ExperimentSpec) -> Iterator[Problem]:
    model, _ = resolved(spec.model)
    try:
        facts = data_facts(spec.data)
    except DatasetError:
        return
    if model is None:
        return
    if facts.inputs and spec.model.read is not None:
        yield from tensor_problems(spec, facts)
        return
    if len(model.input_layers) != 1 or len(model.outputs) != 1:
        if spec.data.dataset != "synthetic":
            yield Problem(
                "model.layers",
                f"has {len(model.input_layers)} inputs and {len(model.outputs)} "
                "outputs, but the data have one sample and one label each",
                "use one input and one output, or for a model.source synthetic data or "
                "a function",
            )
        return
    if facts.inputs:
        yield from tensor_problems(spec, facts)
        return
    wanted = model.input_layers[0].output_shape
    if facts.sample_shape and not fills(facts.sample_shape, wanted):
        yield Problem(
            "model.layers[0].shape",
            f"{_by_x(wanted)} does not suit the data, whose samples are "
            f"{_by_x(facts.sample_shape)}",
            f"use shape = {list(facts.sample_shape)}",
            suggestion=list(facts.sample_shape),
        )
    if facts.images and (len(wanted) != 3 or wanted[-1] not in COLOR_MODES):
        yield Problem(
            "data.dataset",
            f"holds images, but the model takes {_by_x(wanted)}",
            "images need an input of height, width and 1, 3 or 4 channels",
        )
    output = next(layer for layer in model.layers if layer.name == model.outputs[0])
    width = output.output_shape[-1] if output.output_shape else 1
    yield from _numbers(spec, facts, output.output_shape)
    lowest, highest = facts.labels or (0, 0)
    if facts.classes is None and (lowest < 0 or highest >= width):
        text, hint = labels_beyond(lowest, highest, output.name, width)
        yield Problem("data.dataset", text, hint)
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


def _numbers(
    spec: ExperimentSpec, facts: DatasetFacts, shape: tuple[int, ...]
) -> Iterator[Problem]:
    if facts.class_shape not in (None, shape[:-1], (*shape[:-1], 1)):
        yield Problem(
            "data.dataset",
            f"its labels are {_by_x(facts.class_shape or ()) or 1} whole numbers per "
            f"sample, but an output of {_by_x(shape)} takes {prod(shape[:-1])} classes",
            "use class numbers, or for one-hot labels a float type",
        )
    if facts.label_shape is None:
        return
    fitting = "categorical_crossentropy" if facts.label_shape == shape else "mse"
    if spec.train.loss not in ("mse", fitting):
        text = f"{spec.train.loss} needs classes, but the labels are real numbers"
        yield Problem("train.loss", text, f"use {fitting}", suggestion=fitting)
    elif prod(facts.label_shape) != prod(shape):
        yield Problem(
            "data.dataset",
            f"its labels are {_by_x(facts.label_shape) or 'single numbers'}, but the "
            f"model's output is {_by_x(shape)}",
            "both need the same values",
        )


def _by_x(shape: tuple[int, ...]) -> str:
    return "x".join(str(extent) for extent in shape)


_Rule = Callable[[ExperimentSpec], Iterator[Problem]]
_RULES: tuple[tuple[_Rule, tuple[str, ...]], ...] = (
    (_labels_and_loss, ("data.labels", "train.loss")),
    (_cpu_pipeline, ("execution.api", "pipeline.stages")),
    (_cpu_accumulation, ("execution.api", "execution.gradient_accumulation")),
    (_instances, ("execution.api", "execution.instances")),
    (_partial_batches, ("execution.api", "data.preparation")),
    (
        _offloading,
        (
            "pipeline.stages",
            *(f"pipeline.{name}" for name in (*ELSEWHERE, *_NEEDS)),
        ),
    ),
    (_source_options, ("model.source",)),
    (_source_api, ("execution.api", "pipeline.stages", "model.layers")),
    (_locked, ("pipeline.locked", "model.layers")),
    (_estimator_stages, ("execution.api", "pipeline.stages")),
    (_estimator_padding, ("execution.api", "data.preparation")),
    (
        _test_only,
        ("execution.api", "execution.model_dir", "train.test_only", "train.evaluate"),
    ),
    (_model_directory, ("execution.api", "execution.model_dir")),
    (_ipu_config, ("execution.api", "ipu")),
    (_samples, _DATA_FIELDS),
    (_shapes, ("data.dataset", "data.labels", "train.loss", "model.layers")),
)
"""Every rule with the fields that it looks at."""
