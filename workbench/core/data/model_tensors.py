"""What a model takes and is compared with, against what a function gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ipu_runtime.plan.problem import Problem
from workbench.core.data.dataset_facts import DatasetFacts, GivenTensor
from workbench.core.experiment.experiment_spec import ExperimentSpec
from workbench.core.experiment.resolved_model import resolved
from workbench.core.models.source_model import TensorFacts

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
            "int32" if layer.name in embedded else "float32",
        )
        for layer in model.input_layers
    )
    outputs = tuple(TensorFacts(layer.name, layer.output_shape) for layer in ends)
    return inputs, outputs, False, False


def tensor_problems(spec: ExperimentSpec, facts: DatasetFacts) -> Iterator[Problem]:
    """Yield what in the data does not suit the model or the loss."""
    inputs, outputs, _, _ = model_tensors(spec)
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
                check = _sample_fault if what == "samples" else _label_fault
                fault = check(spec, tensor, end)
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
        _label_form(spec, array, end)
        for array, end in zip(_ordered(y, outputs), outputs, strict=True)
    ]
    return samples, labels


def _sample_fault(spec: ExperimentSpec, given: GivenTensor, end: TensorFacts) -> str:
    del spec
    if given.shape != end.shape:
        text = f"{_by_x(given.shape)}, but the model takes {_by_x(end.shape)}"
        batched = given.shape[1:] == end.shape
        return f"{text}; batch without drop_remainder" if batched else text
    if end.dtype.startswith(_WHOLE) and not given.dtype.startswith(_WHOLE):
        return f"{given.dtype}, but the model takes {end.dtype}"
    return ""


def _label_fault(spec: ExperimentSpec, given: GivenTensor, end: TensorFacts) -> str:
    whole = given.dtype.startswith(_WHOLE)
    if is_class_numbers(spec, given, end):
        width = end.shape[-1] if end.shape else 1
        lowest, highest = given.labels or (0, 0)
        if lowest < 0 or highest >= width:
            text = f"classes from {lowest} to {highest}, but the model has {width}"
            return f"{text} outputs"
        return ""
    if spec.train.loss == "sparse_categorical_crossentropy":
        kind = "whole numbers" if whole else "real numbers"
        shape = _by_x(given.shape) or "single"
        return f"{shape} {kind}, but {spec.train.loss} needs class numbers"
    if given.shape != end.shape:
        return f"{_by_x(given.shape) or 'single numbers'}, but the output is " + (
            _by_x(end.shape)
        )
    return ""


def is_class_numbers(
    spec: ExperimentSpec, given: GivenTensor, end: TensorFacts
) -> bool:
    """Tell whether whole numbers are classes, one per place of the output."""
    if spec.train.loss == "mse" or not given.dtype.startswith(_WHOLE):
        return False
    places = end.shape[:-1]
    return given.shape == places or given.shape == (*places, 1) != end.shape


def _label_form(spec: ExperimentSpec, array: Any, end: TensorFacts) -> Any:
    import numpy as np

    given = GivenTensor("", array.shape[1:], str(array.dtype))
    if not is_class_numbers(spec, given, end):
        return array.astype(np.float32, copy=False)
    numbers = array.reshape(len(array), *end.shape[:-1]).astype(np.int32)
    if spec.data.labels == "sparse":
        return numbers
    return np.eye(end.shape[-1], dtype=np.float32)[numbers]


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
