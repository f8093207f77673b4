"""What a model takes and is compared with, against what the data give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ipu_runtime.plan.model.model_spec import Layer
from ipu_runtime.plan.problem import Problem
from workbench.data.dataset_facts import (
    DatasetError,
    DatasetFacts,
    GivenTensor,
    data_facts,
)
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.losses import Loss
from workbench.experiment.resolved_model import resolved
from workbench.models.source_model import TensorFacts

_Tensors = tuple[TensorFacts, ...]
_WHOLE = ("int", "uint", "bool")


def model_tensors(spec: ExperimentSpec) -> tuple[_Tensors, _Tensors, bool, bool]:
    """Return a model's inputs and outputs, and which are dictionaries."""
    read = spec.model.read
    if read is not None:
        return read.inputs, read.outputs, read.named_inputs, read.named_outputs
    model, _ = resolved(spec.model)
    assert model is not None
    ends = [layer for layer in model.layers if layer.name in model.outputs]
    embedded = {
        name
        for layer in model.layers
        if layer.kind == "Embedding"
        for name in layer.inputs
    }
    inputs = tuple(
        TensorFacts(
            layer.name,
            layer.output_shape,
            layer.spec.settings.get(
                "dtype", "int32" if layer.name in embedded else "float32"
            ),
        )
        for layer in model.input_layers
    )
    outputs = tuple(
        TensorFacts(
            layer.name, layer.output_shape, activation=_activation(layer, model.layers)
        )
        for layer in ends
    )
    return inputs, outputs, False, False


def compared_outputs(spec: ExperimentSpec) -> list[tuple[TensorFacts, Loss]]:
    """Return every output of the model with its loss."""
    outputs = model_tensors(spec)[1]
    names = spec.train.losses or (spec.train.loss,) * len(outputs)
    # A rule says so if there are not as many.
    return [(end, Loss(name)) for end, name in zip(outputs, names, strict=False)]


def has_accuracy(spec: ExperimentSpec, loss: Loss) -> bool:
    """Tell whether an output can be right or wrong, not just nearer or farther."""
    return bool(loss.labels) or data_facts(spec.data).classes is not None


def _activation(layer: Layer, layers: Sequence[Layer]) -> str:
    """Return softmax, sigmoid or linear, as far as the kinds of layers tell."""
    while layer.kind in ("Reshape", "Flatten", "Permute", "Dropout"):
        layer = next(other for other in layers if other.name == layer.inputs[0])
    if layer.kind == "Softmax":
        return "softmax"
    if layer.kind not in ("Dense", "Conv2D", "DepthwiseConv2D", "Activation"):
        return ""
    name = layer.spec.settings.get("activation") or "linear"
    return name if name in ("softmax", "sigmoid", "linear") else ""


def tensor_problems(spec: ExperimentSpec, facts: DatasetFacts) -> Iterator[Problem]:
    """Yield what in the data does not suit the model or the loss."""
    inputs, outputs, _, _ = model_tensors(spec)
    loss_of = {end.name: loss for end, loss in compared_outputs(spec)}
    for what, given, wanted in (
        ("samples", facts.inputs, inputs),
        ("labels", facts.outputs, outputs),
    ):
        if len(given) != len(wanted):
            text = f"gives {len(given)} arrays as {what}, but the model has"
            yield _problem(f"{text} {len(wanted)}: {_names(wanted)}")
        elif given[0].name and {item.name for item in given} != set(_listed(wanted)):
            text = f"calls its {what} {_names(given)}, but the model"
            yield _problem(f"{text} {_names(wanted)}")
        else:
            for tensor, end in paired(given, wanted):
                fault = (
                    _sample_fault(tensor, end)
                    if what == "samples"
                    else _label_fault(loss_of[end.name], tensor, end)
                )
                if fault:
                    yield _problem(f"its {what} for {end.name} are {fault}")


def suited(
    spec: ExperimentSpec, x: Any, y: Any, inputs: _Tensors, outputs: _Tensors
) -> tuple[list[Any], list[Any]]:
    """Return the arrays in the model's order, in its types and the loss's form."""
    samples = [
        array.astype(end.dtype if end.dtype != "float16" else "float32", copy=False)
        for array, end in zip(_ordered(x, inputs), inputs, strict=True)
    ]
    labels = [
        _label_form(loss, array, end)
        for array, (end, loss) in zip(
            _ordered(y, outputs), compared_outputs(spec), strict=True
        )
    ]
    return samples, labels


def _sample_fault(given: GivenTensor, end: TensorFacts) -> str:
    if given.shape != end.shape:
        text = f"{_by_x(given.shape)}, but the model takes {_by_x(end.shape)}"
        batched = given.shape[1:] == end.shape
        return f"{text}; batch without drop_remainder" if batched else text
    if end.dtype.startswith(_WHOLE) and not is_whole(given):
        return f"{given.dtype}, but the model takes {end.dtype}"
    return ""


def _label_fault(loss: Loss, given: GivenTensor, end: TensorFacts) -> str:
    lowest, highest = given.labels or (0, 0)
    if is_class_numbers(loss, given, end):
        width = end.shape[-1] if end.shape else 1
        if lowest < 0 or highest >= width:
            text = f"classes from {lowest} to {highest}, but the model has {width}"
            return f"{text} outputs"
        return ""
    if loss.labels == "sparse":
        kind = "whole numbers" if is_whole(given) else "real numbers"
        shape = _by_x(given.shape) or "single"
        return f"{shape} {kind}, but {loss.name} needs class numbers"
    if not meets(given.shape, end.shape):
        return f"{_by_x(given.shape) or 'single numbers'}, but the output is " + (
            _by_x(end.shape)
        )
    if loss.labels == "binary" and (lowest < 0 or highest > 1):
        return f"from {lowest} to {highest}, but {loss.name} takes 0 to 1"
    return ""


def is_whole(given: GivenTensor) -> bool:
    """Tell whether its values are whole numbers, as those of classes are."""
    return given.dtype.startswith(_WHOLE)


def meets(shape: tuple[int, ...], output: tuple[int, ...]) -> bool:
    """Tell whether labels of a shape have a number for every value of an output."""
    return shape == output or (*shape, 1) == output


def is_class_numbers(loss: Loss, given: GivenTensor, end: TensorFacts) -> bool:
    """Tell whether whole numbers are classes, one per place of the output."""
    if not loss.labels or not is_whole(given):
        return False
    if loss.labels == "binary" and meets(given.shape, end.shape):
        return False
    places = end.shape[:-1]
    return given.shape == places or given.shape == (*places, 1) != end.shape


def _label_form(loss: Loss, array: Any, end: TensorFacts) -> Any:
    import numpy as np

    given = GivenTensor("", array.shape[1:], str(array.dtype))
    if not is_class_numbers(loss, given, end):
        return numbers_to_meet(loss, array, end.shape)
    numbers = array.reshape(len(array), *end.shape[:-1]).astype(np.int32)
    if loss.labels == "sparse":
        return numbers
    return np.eye(end.shape[-1], dtype=np.float32)[numbers]


def numbers_to_meet(loss: Loss, labels: Any, shape: tuple[int, ...]) -> Any:
    """Return labels that an output is to meet, in its shape."""
    import numpy as np

    if loss.labels == "binary" and labels.size:
        lowest, highest = labels.min(), labels.max()
        if lowest < 0 or highest > 1:
            text = f"its labels go from {lowest} to {highest}, but {loss.name} takes"
            raise DatasetError("", f"{text} 0 to 1", "use 0 and 1, or another loss")
    return labels.astype(np.float32, copy=False).reshape((len(labels), *shape))


def _ordered(arrays: Any, wanted: _Tensors) -> list[Any]:
    if isinstance(arrays, dict):
        return [arrays[end.name] for end in wanted]
    return list(arrays) if isinstance(arrays, tuple) else [arrays]


def paired(
    given: tuple[GivenTensor, ...], wanted: _Tensors
) -> Iterator[tuple[GivenTensor, TensorFacts]]:
    """Yield what is given for every input or output of the model."""
    by_name = {item.name: item for item in given}
    for place, end in enumerate(wanted):
        yield by_name.get(end.name, given[place]), end


def _problem(text: str) -> Problem:
    return Problem("data.dataset", text)


def _listed(tensors: Sequence[GivenTensor | TensorFacts]) -> list[str]:
    return [item.name for item in tensors]


def _names(tensors: Sequence[GivenTensor | TensorFacts]) -> str:
    return ", ".join(_listed(tensors))


def _by_x(shape: tuple[int, ...]) -> str:
    return "x".join(str(extent) for extent in shape)
