"""The samples of an experiment, loaded and cut into whole batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ipu_runtime.datasets.packaged import load_packaged, read_arrays
from ipu_runtime.datasets.unreadable import UNREADABLE
from workbench.data.csv_table import load_csv
from workbench.data.dataset_facts import (
    PACKAGED,
    DatasetError,
    DatasetFacts,
    data_facts,
    fills,
    labels_beyond,
    takes_bytes,
)
from workbench.data.downloads import download_cifar10
from workbench.data.image_folder import load_images
from workbench.data.model_tensors import (
    compared_outputs,
    meets,
    model_tensors,
    numbers_to_meet,
    suited,
)
from workbench.data.sample_counts import PartCount, SampleCounts, count, is_made_up
from workbench.data.synthetic_data import synthetic_tensors
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.resolved_model import resolved
from workbench.models.model_source import parse_source
from workbench.models.source_files import content_key
from workbench.models.source_model import TensorFacts
from workbench.training.samples import pad

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class PreparedPart:
    """Samples for training or for testing, in whole batches unless asked otherwise."""

    x: Any
    """An array; a tuple or a dictionary of them for a model with several inputs."""
    y: Any
    sample_weight: Array | None
    """1 for samples of the data set, 0 for padding; None without padding."""
    count: PartCount


@dataclass(frozen=True, eq=False)
class PreparedData:
    """The data of an experiment."""

    train: PreparedPart
    test: PreparedPart

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
    if is_made_up(spec):
        return _made_up(spec)
    if spec.data.read is not None:
        return _of_function(spec, spec.data.read)
    arrays = _load(spec, tell)
    facts = data_facts(spec.data)
    ((end, loss),) = compared_outputs(spec)
    meant = meets(arrays["y_train"].shape[1:], end.shape)
    meant = meant and loss.labels in ("", "binary")
    real = facts.label_shape is not None or meant
    classes = 0 if real else _classes(spec, arrays)
    form = loss.labels or spec.data.labels
    counts: SampleCounts = count(spec)
    shape = _input_shape(spec)
    pixels = facts.pixels and not takes_bytes(spec)
    parts = {
        part: _prepare(
            _samples(arrays[f"x_{part}"], counted, shape, pixels),
            numbers_to_meet(loss, _kept(arrays[f"y_{part}"], counted), end.shape)
            if real
            else _labels(arrays[f"y_{part}"], counted, classes, form),
            counted,
        )
        for part, counted in (("train", counts.train), ("test", counts.test))
    }
    return PreparedData(parts["train"], parts["test"])


def _made_up(spec: ExperimentSpec) -> PreparedData:
    """Return samples and labels for all inputs and outputs of the model."""
    counts = count(spec)
    available = enumerate((counts.train.available, counts.test.available))
    return _in_batches(spec, (synthetic_tensors(spec, *part) for part in available))


def _of_function(spec: ExperimentSpec, facts: DatasetFacts) -> PreparedData:
    """Return what a function of the user's gives, as model and loss take it."""
    # Late, because few experiments have such data.
    from workbench.data.data_function import load_function_data

    source = parse_source(spec.data.dataset)
    if content_key(source) != spec.data.content:
        raise DatasetError(source.text, f"{source.text} has changed since its plan")
    given = load_function_data(source, facts, spec.data.test_share)
    inputs, outputs, _, _ = model_tensors(spec)
    return _in_batches(spec, (suited(spec, *part, inputs, outputs) for part in given))


def _in_batches(
    spec: ExperimentSpec, given: Iterable[tuple[list[Array], list[Array]]]
) -> PreparedData:
    """Return arrays for all inputs and outputs, of training and then of testing."""
    inputs, outputs, named_inputs, named_outputs = model_tensors(spec)
    counts, parts = count(spec), []
    for (x, y), counted in zip(given, (counts.train, counts.test), strict=True):
        kept = slice(min(counted.available, counted.prepared))
        parts.append(
            _prepare(
                _packed([array[kept] for array in x], inputs, named_inputs),
                _packed([array[kept] for array in y], outputs, named_outputs),
                counted,
            )
        )
    return PreparedData(parts[0], parts[1])


def _packed(arrays: list[Array], facts: Sequence[TensorFacts], named: bool) -> Any:
    if named:
        return {fact.name: array for fact, array in zip(facts, arrays, strict=True)}
    return tuple(arrays) if len(arrays) > 1 else arrays[0]


def _load(spec: ExperimentSpec, tell: Callable[[str], None]) -> dict[str, Array]:
    name = spec.data.dataset
    if name in PACKAGED:
        return load_packaged(name)
    if name == "cifar10-full":
        return download_cifar10(tell)
    path = Path(os.path.expanduser(name))
    facts = data_facts(spec.data)  # Says what is wrong before anything is read.
    if facts.images:
        return load_images(path, facts, _input_shape(spec) or ())
    if path.suffix.lower() == ".csv":
        return load_csv(path, spec.data.label_column, facts)
    try:
        arrays = read_arrays(path)
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
    known = data_facts(spec.data).classes
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
        beyond = labels_beyond(lowest, highest, output.name, width)
        raise DatasetError(spec.data.dataset, *beyond)
    return width


def _samples(
    samples: Array,
    counted: PartCount,
    shape: tuple[int, ...] | None,
    pixels: bool,
) -> Array:
    kept = _kept(samples, counted)
    if pixels:
        # The documents scale them to the range from 0 to 1.
        kept = kept.astype(np.float32) / np.float32(255)
    elif kept.dtype.kind in "fb":
        with np.errstate(over="ignore"):
            kept = kept.astype(np.float32, copy=False)
        if not np.isfinite(kept).all():
            raise DatasetError("", "its samples are too large for single precision")
    if shape is not None and kept.shape[1:] != shape:
        if not fills(kept.shape[1:], shape):
            raise DatasetError(
                "", f"samples of shape {kept.shape[1:]} do not suit the input {shape}"
            )
        kept = kept.reshape((len(kept), *shape))
    return kept


def _kept(values: Array, counted: PartCount) -> Array:
    return values[: min(counted.available, counted.prepared)]


def _labels(labels: Array, counted: PartCount, classes: int, form: str) -> Array:
    kept = _kept(labels, counted)
    if kept.ndim == 2 and kept.shape[1] == 1:
        kept = kept[:, 0]
    if form == "sparse":
        return kept.astype(np.int32)
    one_hot = np.zeros((*kept.shape, classes), np.float32)
    np.put_along_axis(one_hot, kept[..., None].astype(np.int64), 1.0, axis=-1)
    return one_hot


def _prepare(x: Any, y: Any, counted: PartCount) -> PreparedPart:
    if not counted.added:
        return PreparedPart(x, y, None, counted)
    x, y, weight = pad((x, y), counted.prepared)
    return PreparedPart(x, y, weight, counted)
