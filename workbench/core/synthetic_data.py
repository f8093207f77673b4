"""Made-up samples that suit any model, for planning and trying out large ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ipu_runtime.plan.model_spec import Layer
from workbench.core.dataset_facts import DatasetError
from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.resolved_model import resolved
from workbench.core.sample_counts import count


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
        vocabulary = _vocabulary(model.layers, entry.name)
        arrays[f"x_{part}"] = (
            random.integers(0, vocabulary, shape, np.int32)
            if vocabulary
            else random.random(shape, np.float32)
        )
        classes = output.output_shape[-1] if output.output_shape else 1
        label_shape = (counted.available, *output.output_shape[:-1])
        arrays[f"y_{part}"] = random.integers(0, max(classes, 1), label_shape, np.int32)
    return arrays


def _vocabulary(layers: tuple[Layer, ...], entry: str) -> int:
    """Return the entries of the table that the input looks up; 0 if it does not."""
    for layer in layers:
        if layer.kind == "Embedding" and entry in layer.inputs:
            return int(layer.spec.settings["input_dim"])
    return 0
