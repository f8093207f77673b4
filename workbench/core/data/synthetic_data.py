"""Made-up samples that suit any model, for planning and trying out large ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ipu_runtime.plan.model.model_spec import Layer
from workbench.core.data.dataset_facts import DatasetError
from workbench.core.data.sample_counts import count
from workbench.core.experiment.experiment_spec import ExperimentSpec
from workbench.core.experiment.resolved_model import resolved
from workbench.core.models.source_model import SourceModel


def synthetic_arrays(spec: ExperimentSpec) -> dict[str, npt.NDArray[Any]]:
    """Return samples of the model's input shape and labels of its output."""
    model, _ = resolved(spec.model)
    if model is None or len(model.input_layers) != 1 or len(model.outputs) != 1:
        raise DatasetError(
            "synthetic", "needs a model with one input and one output to run"
        )
    entry = model.input_layers[0]
    output = next(layer for layer in model.layers if layer.name == model.outputs[0])
    counts = count(spec)
    arrays: dict[str, npt.NDArray[Any]] = {}
    for number, (part, counted) in enumerate(
        (("train", counts.train), ("test", counts.test))
    ):
        random = np.random.default_rng([spec.experiment.seed, number])
        shape = (counted.available, *entry.output_shape)
        vocabulary = vocabulary_of(model.layers, entry.name)
        arrays[f"x_{part}"] = (
            random.integers(0, vocabulary, shape, np.int32)
            if vocabulary
            else random.random(shape, np.float32)
        )
        classes = output.output_shape[-1] if output.output_shape else 1
        label_shape = (counted.available, *output.output_shape[:-1])
        arrays[f"y_{part}"] = random.integers(0, max(classes, 1), label_shape, np.int32)
    return arrays


def synthetic_tensors(
    spec: ExperimentSpec, read: SourceModel, part: int, samples: int
) -> tuple[list[npt.NDArray[Any]], list[npt.NDArray[Any]]]:
    """Return samples for every input of a source's model, labels for every output."""
    random = np.random.default_rng([spec.experiment.seed, part])
    layers = read.spec.layers if read.spec else ()
    inputs: list[npt.NDArray[Any]] = []
    for entry in read.inputs:
        shape = (samples, *entry.shape)
        most = vocabulary_of(layers, entry.name) or 2
        if np.dtype(entry.dtype).kind in "iub":
            inputs.append(random.integers(0, most, shape).astype(entry.dtype))
        elif vocabulary_of(layers, entry.name):
            inputs.append(random.integers(0, most, shape).astype(np.float32))
        else:
            inputs.append(random.random(shape, np.float32))
    return inputs, [
        _labels(random, spec, (samples, *end.shape)) for end in read.outputs
    ]


def _labels(
    random: np.random.Generator, spec: ExperimentSpec, shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Return what the loss compares an output of this shape with."""
    if spec.train.loss == "mse":
        return random.random(shape, np.float32)
    classes = random.integers(0, max(shape[-1], 1), shape[:-1], np.int32)
    if spec.data.labels == "sparse":
        return classes
    return np.eye(shape[-1], dtype=np.float32)[classes]


def vocabulary_of(layers: tuple[Layer, ...], entry: str) -> int:
    """Return the entries of the table that the input looks up; 0 if it does not."""
    for layer in layers:
        if layer.kind == "Embedding" and entry in layer.inputs:
            return int(layer.spec.settings["input_dim"])
    return 0
