"""What is known about a data set without loading it."""

from __future__ import annotations

import ast
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ipu_runtime.datasets.machine_memory import memory_bytes
from ipu_runtime.datasets.unreadable import UNREADABLE, check_packing

if TYPE_CHECKING:
    from workbench.experiment.experiment_spec import Data, ExperimentSpec

PACKAGED = ("mnist", "cifar10")
NAMED = (*PACKAGED, "cifar10-full", "synthetic")
SYNTHETIC_TRAIN, SYNTHETIC_TEST = 2048, 512
ARRAYS = ("x_train", "y_train", "x_test", "y_test")
DATA_FORMS = (
    "an .npz file, a .csv file, a directory with a directory of images per class, "
    "file.py:function or package.module:function"
)


class DatasetError(Exception):
    """A data set that is not there or not what it should be."""

    def __init__(self, dataset: str, problem: str, hint: str = "") -> None:
        self.dataset, self.problem, self.hint = dataset, problem, hint
        super().__init__(
            f"data.dataset: {problem}; {hint}" if hint else (f"data.dataset: {problem}")
        )


@dataclass(frozen=True, slots=True)
class GivenTensor:
    """One array of the samples or labels that a function of the user's gives."""

    name: str
    """Empty where they are told apart by their place."""
    shape: tuple[int, ...]
    dtype: str
    labels: tuple[int, int] | None = None
    """Lowest and highest value of whole numbers."""


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """Sizes of a data set."""

    train_samples: int
    test_samples: int
    sample_shape: tuple[int, ...] | None
    """None when the data are made to suit the model."""
    classes: int | None
    """None when it is not known before the labels are read."""
    pixels: bool = True
    """Whether samples are bytes, which are scaled to the range from 0 to 1."""
    label_shape: tuple[int, ...] | None = None
    """Of labels that are numbers to be met, not classes."""
    class_shape: tuple[int, ...] | None = None
    """Of the class numbers of one sample, where that is known."""
    labels: tuple[int, int] | None = None
    """Lowest and highest class number, where the labels have been read."""
    images: bool = False
    """Whether samples are images that take the size of the model's input."""
    inputs: tuple[GivenTensor, ...] = ()
    """What a function of the user's gives as a sample; the other forms have one."""
    outputs: tuple[GivenTensor, ...] = ()


_FACTS = {
    "mnist": DatasetFacts(60_000, 10_000, (28, 28, 1), 10),
    "cifar10": DatasetFacts(2_560, 640, (32, 32, 3), 10),
    "cifar10-full": DatasetFacts(50_000, 10_000, (32, 32, 3), 10),
    "synthetic": DatasetFacts(
        SYNTHETIC_TRAIN, SYNTHETIC_TEST, None, None, pixels=False
    ),
}


def data_facts(data: Data) -> DatasetFacts:
    """Return the sizes of an experiment's data."""
    if data.read is not None:
        return data.read
    return dataset_facts(data.dataset, data.label_column, data.test_share)


def takes_bytes(spec: ExperimentSpec) -> bool:
    """Tell whether pixels go to the model as they are, to be scaled on the device."""
    return any(
        layer.kind == "Input" and layer.settings.get("dtype") == "uint8"
        for layer in spec.model.layers
    )


def labels_beyond(
    lowest: int, highest: int, output: str, width: int
) -> tuple[str, str]:
    """Return what is wrong with class numbers that an output does not have."""
    return (
        f"its labels go from {lowest} to {highest}, but {output} has {width} outputs",
        f"labels must be from 0 to {width - 1}; numbers to be met need a decimal point",
    )


def fills(samples: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Tell whether samples can be taken in another shape without mixing axes up."""
    held, wanted = ([extent for extent in s if extent != 1] for s in (samples, shape))
    flat = min(len(held), len(wanted)) < 2
    return prod(held) == prod(wanted) if flat else held == wanted


def part_counts(samples: Sequence[int], test_share: float) -> tuple[int, int]:
    """Return how many samples train and test; data of one part are shared out."""
    if len(samples) == 2:
        return samples[0], samples[1]
    test = int(samples[0] * test_share)
    return samples[0] - test, test


def dataset_facts(
    dataset: str, label_column: str = "label", test_share: float = 0.2
) -> DatasetFacts:
    """Return the sizes of a named data set or of the user's file or directory."""
    facts = _FACTS.get(dataset)
    if facts is not None:
        return facts
    try:
        path = Path(os.path.expanduser(dataset))
        stamp, is_folder = path.stat().st_mtime_ns, path.is_dir()
    except (OSError, ValueError) as error:
        # A ValueError is for names that no file can have.
        names = ", ".join(NAMED)
        hint = f"valid: {names}, {DATA_FORMS}"
        problem = f'"{dataset}" is neither a known data set nor a file'
        raise DatasetError(dataset, problem, hint) from error
    # Late, because they need what is said here.
    if is_folder:
        from workbench.data.image_folder import image_facts

        return image_facts(path, test_share)
    if path.suffix.lower() == ".csv":
        from workbench.data.csv_table import csv_facts

        return csv_facts(path, stamp, label_column, test_share)
    return _facts_of_file(path, stamp)


@lru_cache(maxsize=16)
def _facts_of_file(path: Path, stamp: int) -> DatasetFacts:
    del stamp  # Part of the key, so that a changed file is read again.
    if not path.is_file():
        # A pipe would be waited for, a device read without end.
        raise DatasetError(str(path), f"{path} is not a file")
    try:
        with zipfile.ZipFile(path) as archive:
            check_packing(archive)
            headers = {name: _header_of(archive, name) for name in ARRAYS}
            unpacked = sum(archive.getinfo(f"{name}.npy").file_size for name in ARRAYS)
    except UNREADABLE as error:
        raise DatasetError(
            str(path), f"{path} is not an .npz file of arrays"
        ) from error
    if unpacked > memory_bytes():
        # A small file can hold any amount of zeros.
        raise DatasetError(
            str(path),
            f"{path} holds {unpacked / 2**30:,.1f} GiB, more than this machine's "
            "memory",
        )
    shapes = {name: shape for name, (shape, _) in headers.items()}
    for part in ("train", "test"):
        samples, labels = shapes[f"x_{part}"], shapes[f"y_{part}"]
        if not samples or not labels or samples[0] != labels[0]:
            raise DatasetError(
                str(path),
                f"{path}: x_{part} {samples} and y_{part} {labels} differ in length",
                "both need one entry per sample",
            )
    train, test = shapes["x_train"], shapes["x_test"]
    if train[1:] != test[1:]:
        problem = f"{path}: x_train {train} and x_test {test} have other sample shapes"
        raise DatasetError(str(path), problem)
    real = "f" in headers["y_train"][1]
    return DatasetFacts(
        train[0],
        test[0],
        train[1:],
        None,
        pixels="u1" in headers["x_train"][1],
        label_shape=shapes["y_train"][1:] if real else None,
        class_shape=None if real else shapes["y_train"][1:],
    )


def with_label_range(facts: DatasetFacts, dataset: str) -> DatasetFacts:
    """Return it with the lowest and highest class number of an .npz file, read now."""
    if facts.class_shape is None or facts.labels is not None:
        return facts
    # Late, because who only checks a file does without.
    import numpy as np

    try:
        with np.load(os.path.expanduser(dataset)) as arrays:
            labels = arrays["y_train"]
        return replace(facts, labels=(int(labels.min()), int(labels.max())))
    except UNREADABLE:
        # Loading them says so.
        return facts


def _header_of(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], str]:
    if f"{name}.npy" not in archive.namelist():
        held = ", ".join(sorted(item[:-4] for item in archive.namelist())) or "nothing"
        raise DatasetError(
            str(archive.filename),
            f"{archive.filename} has no array {name}",
            f"needed: {', '.join(ARRAYS)}; it has: {held}",
        )
    with archive.open(f"{name}.npy") as file:
        return _read_header(file)


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], str]:
    """Read shape and type from an array file; NumPy would take long to load."""
    magic = file.read(8)
    if magic[:6] != b"\x93NUMPY":
        raise ValueError("no array file")
    length = int.from_bytes(file.read(2 if magic[6] == 1 else 4), "little")
    header = ast.literal_eval(file.read(min(length, 65_536)).decode("latin-1"))
    shape = header["shape"]
    if header["descr"] == "|O" or not isinstance(shape, tuple):
        raise ValueError("no plain array")
    if any(type(extent) is not int or extent < 0 for extent in shape):
        raise ValueError("no shape")
    return shape, str(header["descr"])


def as_arrays(train: tuple[Any, Any], test: tuple[Any, Any]) -> dict[str, Any]:
    """Return both parts under the names that files of arrays use."""
    (x_train, y_train), (x_test, y_test) = train, test
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
