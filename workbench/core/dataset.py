"""The samples of an experiment, loaded and cut into whole batches."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ipu_runtime.datasets.packaged import load_packaged, read_arrays
from ipu_runtime.datasets.unreadable import UNREADABLE
from workbench.core.dataset_facts import PACKAGED, DatasetError, dataset_facts
from workbench.core.downloads import download_cifar10
from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.resolved_model import resolved
from workbench.core.sample_counts import PartCount, SampleCounts, count
from workbench.core.synthetic_data import synthetic_arrays

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class PreparedPart:
    """Samples for training or for testing, in whole batches unless asked otherwise."""

    x: Array
    y: Array
    sample_weight: Array | None
    """1 for samples of the data set, 0 for padding; None without padding."""
    count: PartCount


@dataclass(frozen=True, eq=False)
class PreparedData:
    """The data of an experiment."""

    train: PreparedPart
    test: PreparedPart
    classes: int

    def report(self) -> str:
        """Say in one line what preparation did to the data."""
        parts = []
        for name, part in (("training", self.train), ("test", self.test)):
            if part.count.dropped:
                parts.append(f"{part.count.dropped} {name} samples dropped")
            if part.count.added:
                parts.append(f"{part.count.added} {name} samples of zeros added")
        used = f"{self.train.count.samples} training samples per epoch"
        return ", ".join([used, f"{self.test.count.samples} test samples", *parts])


def load_prepared(
    spec: ExperimentSpec, tell: Callable[[str], None] = lambda text: None
) -> PreparedData:
    """Load the data of an experiment and prepare them as it says.

    Args:
        spec: The experiment.
        tell: Told what is going on when that takes long, as a download does.
    """
    arrays = _load(spec, tell)
    classes = _classes(spec, arrays)
    counts: SampleCounts = count(spec)
    shape = _input_shape(spec)
    parts = {
        part: _prepare(
            _samples(arrays[f"x_{part}"], counted, shape),
            _labels(arrays[f"y_{part}"], counted, classes, spec.data.labels),
            counted,
        )
        for part, counted in (("train", counts.train), ("test", counts.test))
    }
    return PreparedData(parts["train"], parts["test"], classes)


def _load(spec: ExperimentSpec, tell: Callable[[str], None]) -> dict[str, Array]:
    name = spec.data.dataset
    if name in PACKAGED:
        return load_packaged(name)
    if name == "cifar10-full":
        return download_cifar10(tell)
    if name == "synthetic":
        return synthetic_arrays(spec)
    dataset_facts(name)  # Says what is wrong with the file before it is read.
    try:
        arrays = read_arrays(Path(os.path.expanduser(name)))
    except UNREADABLE as error:
        raise DatasetError(name, str(error)) from error
    for part, array in arrays.items():
        # What numbers they are is looked at later, for labels and samples apart.
        if array.dtype.kind not in "fiub" or not np.isfinite(array).all():
            held = "values that are not finite"
            held = held if array.dtype.kind in "fiub" else f"{array.dtype} values"
            raise DatasetError(name, f"{name}: {part} holds {held}, not plain numbers")
    return arrays


def _input_shape(spec: ExperimentSpec) -> tuple[int, ...] | None:
    model, _ = resolved(spec.model)
    return model.input_layers[0].output_shape if model else None


def _classes(spec: ExperimentSpec, arrays: dict[str, Array]) -> int:
    known = dataset_facts(spec.data.dataset).classes
    if known is not None:
        return known
    both = [arrays[name] for name in ("y_train", "y_test")]
    for name, labels in zip(("y_train", "y_test"), both, strict=True):
        if labels.dtype.kind not in "iub":
            raise DatasetError(
                spec.data.dataset,
                f"{name} holds {labels.dtype} values, not class numbers",
                "labels must be whole numbers from 0",
            )
    lowest = min(int(labels.min(initial=0)) for labels in both)
    highest = max(int(labels.max(initial=0)) for labels in both)
    model, _ = resolved(spec.model)
    if model is None:
        return highest + 1
    output = next(layer for layer in model.layers if layer.name == model.outputs[0])
    width = output.output_shape[-1] if output.output_shape else 1
    if highest >= width or lowest < 0:
        raise DatasetError(
            spec.data.dataset,
            f"its labels go from {lowest} to {highest}, but {output.name} has {width} "
            "outputs",
            f"labels must be from 0 to {width - 1}",
        )
    return width


def _samples(
    samples: Array, counted: PartCount, shape: tuple[int, ...] | None
) -> Array:
    kept = samples[: min(counted.available, counted.prepared)]
    if kept.dtype == np.uint8:
        # Bytes are pixels; the documents scale them to the range from 0 to 1.
        kept = kept.astype(np.float32) / np.float32(255)
    elif kept.dtype.kind in "fb":
        with np.errstate(over="ignore"):
            kept = kept.astype(np.float32, copy=False)
        if not np.isfinite(kept).all():
            raise DatasetError("", "its samples are too large for single precision")
    if shape is not None and kept.shape[1:] != shape:
        if prod(kept.shape[1:]) != prod(shape):
            raise DatasetError(
                "", f"samples of shape {kept.shape[1:]} do not suit the input {shape}"
            )
        kept = kept.reshape((len(kept), *shape))
    return kept


def _labels(labels: Array, counted: PartCount, classes: int, form: str) -> Array:
    kept = labels[: min(counted.available, counted.prepared)]
    if kept.ndim == 2 and kept.shape[1] == 1:
        kept = kept[:, 0]
    if form == "sparse":
        return kept.astype(np.int32)
    one_hot = np.zeros((*kept.shape, classes), np.float32)
    np.put_along_axis(one_hot, kept[..., None].astype(np.int64), 1.0, axis=-1)
    return one_hot


def _prepare(x: Array, y: Array, counted: PartCount) -> PreparedPart:
    if not counted.added:
        return PreparedPart(x, y, None, counted)
    weight = np.zeros(counted.prepared, np.float32)
    weight[: len(x)] = 1.0
    return PreparedPart(
        _with_zeros(x, counted.added), _with_zeros(y, counted.added), weight, counted
    )


def _with_zeros(values: Array, added: int) -> Array:
    zeros = np.zeros((added, *values.shape[1:]), values.dtype)
    return np.concatenate([values, zeros])
