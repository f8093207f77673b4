"""What an experiment's data have to be like for its model and its loss."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ipu_runtime.plan.problem import Problem, Severity
from ipu_runtime.plan.quantities import plural
from workbench.data.dataset_facts import (
    DatasetError,
    DatasetFacts,
    data_facts,
    fills,
    labels_beyond,
)
from workbench.data.image_folder import COLOR_MODES
from workbench.data.model_tensors import (
    compared_outputs,
    meets,
    model_tensors,
    tensor_problems,
)
from workbench.data.sample_counts import count, is_made_up
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.losses import Loss
from workbench.experiment.resolved_model import resolved
from workbench.experiment.topology import has_ipus
from workbench.models.source_model import TensorFacts


def check_labels(spec: ExperimentSpec) -> Iterator[Problem]:
    """Labels and the loss have to be of one form; losses of outputs say theirs."""
    loss = Loss(spec.train.loss)
    if spec.train.losses or loss.labels in ("", "binary", spec.data.labels):
        return
    fitting = loss.for_labels(spec.data.labels).name
    yield Problem(
        "train.loss",
        f"{loss.name} needs {loss.labels} labels, but data.labels is "
        f"{spec.data.labels}",
        f"use {fitting}, or data.labels = {loss.labels}",
        suggestion=fitting,
    )


def check_losses(spec: ExperimentSpec) -> Iterator[Problem]:
    """Every output has a loss, and one that takes what it is."""
    if resolved(spec.model)[0] is None:
        return
    outputs, losses = model_tensors(spec)[1], spec.train.losses
    if losses and len(losses) != len(outputs):
        names = ", ".join(end.name for end in outputs)
        yield Problem(
            "train.losses",
            f"{len(losses)} given, but the model has {len(outputs)} outputs: {names}",
            "give one for each, in this order, or none",
            suggestion=[],
        )
        return
    field = "train.losses" if losses else "train.loss"
    for end, loss in compared_outputs(spec):
        if loss.labels in ("sparse", "categorical") and not end.shape:
            text = f"{loss.name} needs classes, but {end.name} is one number per sample"
            suggestion = None if losses else "mse"
            yield Problem(field, text, "use mse", suggestion=suggestion)
        makes_logits = end.activation == "linear"
        if not (loss.labels and end.activation) or makes_logits == loss.from_logits:
            continue
        fitting = loss.of(from_logits=makes_logits).name
        ends = "no softmax or sigmoid" if makes_logits else f"a {end.activation}"
        yield Problem(
            field,
            f"{loss.name} takes {'probabilities' if makes_logits else 'logits'}, but "
            f"{end.name} has {ends}",
            f"use {fitting}",
            Severity.WARNING,
            suggestion=None if losses else fitting,
        )


def check_samples(spec: ExperimentSpec) -> Iterator[Problem]:
    """There are as many samples as are asked for, and they fill batches."""
    try:
        facts = data_facts(spec.data)
    except DatasetError as error:
        yield Problem("data.dataset", error.problem, error.hint)
        return
    for name, asked, available in (
        ("train_samples", spec.data.train_samples, facts.train_samples),
        ("test_samples", spec.data.test_samples, facts.test_samples),
    ):
        if asked > available and not is_made_up(spec):
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
        # More IPUs than the system has decide first; the plan says so.
        needed = needed and has_ipus(spec)
        # Repeated data have as many batches as steps are asked for, if they have one.
        if needed and not (counted.batches and counted.prepared):
            each = " for every replica and micro-batch"
            each = "" if spec.data.preparation == "repeat" else each
            yield Problem(
                f"data.{part}_samples",
                f"{plural(counted.available, 'sample')} cannot fill a batch of "
                f"{spec.data.batch_size}{each}",
                "use more samples or a smaller data.batch_size",
            )


def check_shapes(spec: ExperimentSpec) -> Iterator[Problem]:
    """Samples and labels suit the ends of the model."""
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
        if not is_made_up(spec):
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
    for end, loss in compared_outputs(spec):
        yield from _number_problems(loss, facts, end.shape)
        yield from _class_problems(loss, facts, end)


def _class_problems(
    loss: Loss, facts: DatasetFacts, end: TensorFacts
) -> Iterator[Problem]:
    width = end.shape[-1] if end.shape else 1
    met = meets(facts.class_shape or (), end.shape)
    if not loss.labels and met:
        return
    lowest, highest = facts.labels or (0, (facts.classes or 1) - 1)
    if loss.labels == "binary" and met:
        if lowest < 0 or highest > 1:
            yield Problem(
                "train.loss",
                f"{loss.name} takes 0 or 1, but the labels go from {lowest} to "
                f"{highest}",
                "use mse, or give the model an output for every class",
            )
    elif facts.classes is None and (lowest < 0 or highest >= width):
        text, hint = labels_beyond(lowest, highest, end.name, width)
        yield Problem("data.dataset", text, hint)
    elif facts.classes is not None and loss.labels:
        exact = loss.labels != "sparse"
        if width < facts.classes or (exact and width != facts.classes):
            yield Problem(
                "model.layers",
                f"the last layer {end.name} has {width} outputs, but the data have "
                f"{facts.classes} classes",
                f"give it {facts.classes}",
            )


def _number_problems(
    loss: Loss, facts: DatasetFacts, shape: tuple[int, ...]
) -> Iterator[Problem]:
    classes_fit = facts.class_shape in (None, shape[:-1], (*shape[:-1], 1))
    met = loss.labels in ("", "binary") and meets(facts.class_shape or (), shape)
    if not classes_fit and not met:
        yield Problem(
            "data.dataset",
            f"its labels are {_by_x(facts.class_shape or ()) or 1} whole numbers per "
            f"sample, but an output of {_by_x(shape)} takes {prod(shape[:-1])} classes",
            "use class numbers, or for one-hot labels a float type",
        )
    if facts.label_shape is None:
        return
    one_hot = facts.label_shape == shape
    if loss.labels == "sparse" or (loss.labels == "categorical" and not one_hot):
        fitting = loss.for_labels("categorical").name if one_hot else "mse"
        text = f"{loss.name} needs classes, but the labels are real numbers"
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
