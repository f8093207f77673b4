"""Made-up samples that suit any model, for planning and trying out large ones."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ipu_runtime.datasets.machine_memory import memory_bytes
from ipu_runtime.plan.model.model_spec import Layer
from ipu_runtime.plan.quantities import byte_size
from workbench.data.dataset_facts import DatasetError
from workbench.data.model_tensors import compared_outputs, model_tensors
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.losses import Loss
from workbench.experiment.resolved_model import resolved


def synthetic_tensors(
    spec: ExperimentSpec, part: int, samples: int
) -> tuple[list[npt.NDArray[Any]], list[npt.NDArray[Any]]]:
    """Return samples for every input of a model, labels for every output.

    There are as many as the IPUs of an experiment take, which may be a whole Pod's.
    """
    values = sum(prod(entry.shape) for entry in model_tensors(spec)[0])
    if 4 * values * samples > memory_bytes():
        size = byte_size(4 * values * samples)
        hint = "use fewer IPUs, a smaller data.batch_size, or only plan it"
        text = f"{samples:,} made-up samples are {size}, more than the memory"
        raise DatasetError("synthetic", text, hint)
    random = np.random.default_rng([spec.experiment.seed, part])
    model, _ = resolved(spec.model)
    layers = model.layers if model else ()
    inputs: list[npt.NDArray[Any]] = []
    for entry in model_tensors(spec)[0]:
        shape = (samples, *entry.shape)
        vocabulary = vocabulary_of(layers, entry.name)
        whole = np.dtype(entry.dtype).kind in "iub"
        if vocabulary or whole:
            dtype = entry.dtype if whole else np.float32
            inputs.append(random.integers(0, vocabulary or 2, shape).astype(dtype))
        else:
            inputs.append(random.random(shape, np.float32))
    return inputs, [
        _labels(random, loss, (samples, *end.shape))
        for end, loss in compared_outputs(spec)
    ]


def _labels(
    random: np.random.Generator, loss: Loss, shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Return what the loss compares an output of this shape with."""
    if not loss.labels:
        return random.random(shape, np.float32)
    if loss.labels == "binary":
        return random.integers(0, 2, shape).astype(np.float32)
    classes = random.integers(0, max(shape[-1], 1), shape[:-1], np.int32)
    if loss.labels == "sparse":
        return classes
    return np.eye(shape[-1], dtype=np.float32)[classes]


def vocabulary_of(layers: tuple[Layer, ...], entry: str) -> int:
    """Return the entries of the table that the input looks up; 0 if it does not."""
    for layer in layers:
        if layer.kind == "Embedding" and entry in layer.inputs:
            return int(layer.spec.settings["input_dim"])
    return 0
