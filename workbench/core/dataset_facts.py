"""What is known about a data set without loading it."""

from __future__ import annotations

import ast
import os
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

from ipu_runtime.datasets.unreadable import UNREADABLE

PACKAGED = ("mnist", "cifar10")
NAMED = (*PACKAGED, "cifar10-full", "synthetic")
SYNTHETIC_TRAIN, SYNTHETIC_TEST = 2048, 512
ARRAYS = ("x_train", "y_train", "x_test", "y_test")


class DatasetError(Exception):
    """A data set that is not there or not what it should be."""

    def __init__(self, dataset: str, problem: str, hint: str = "") -> None:
        self.dataset, self.problem, self.hint = dataset, problem, hint
        super().__init__(
            f"data.dataset: {problem}; {hint}" if hint else (f"data.dataset: {problem}")
        )


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """Sizes of a data set."""

    train_samples: int
    test_samples: int
    sample_shape: tuple[int, ...] | None
    """None when the data are made to suit the model."""
    classes: int | None
    """None when it is not known before the labels are read."""


_FACTS = {
    "mnist": DatasetFacts(60_000, 10_000, (28, 28, 1), 10),
    "cifar10": DatasetFacts(2_560, 640, (32, 32, 3), 10),
    "cifar10-full": DatasetFacts(50_000, 10_000, (32, 32, 3), 10),
    "synthetic": DatasetFacts(SYNTHETIC_TRAIN, SYNTHETIC_TEST, None, None),
}


def dataset_facts(dataset: str) -> DatasetFacts:
    """Return the sizes of a named data set or of the user's file."""
    facts = _FACTS.get(dataset)
    if facts is not None:
        return facts
    try:
        path = Path(os.path.expanduser(dataset))
        stamp = path.stat().st_mtime_ns
    except (OSError, ValueError) as error:
        # A ValueError is for names that no file can have.
        names = ", ".join(NAMED)
        hint = f"valid: {names}, or the path of an .npz file"
        problem = f'"{dataset}" is neither a known data set nor a file'
        raise DatasetError(dataset, problem, hint) from error
    return _facts_of_file(path, stamp)


@lru_cache(maxsize=16)
def _facts_of_file(path: Path, stamp: int) -> DatasetFacts:
    del stamp  # Part of the key, so that a changed file is read again.
    if not path.is_file():
        # A pipe would be waited for, a device read without end.
        raise DatasetError(str(path), f"{path} is not a file")
    try:
        with zipfile.ZipFile(path) as archive:
            shapes = {name: _shape_of(archive, name) for name in ARRAYS}
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
    return DatasetFacts(train[0], test[0], train[1:], None)


def memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _shape_of(archive: zipfile.ZipFile, name: str) -> tuple[int, ...]:
    if f"{name}.npy" not in archive.namelist():
        held = ", ".join(sorted(item[:-4] for item in archive.namelist())) or "nothing"
        raise DatasetError(
            str(archive.filename),
            f"{archive.filename} has no array {name}",
            f"needed: {', '.join(ARRAYS)}; it has: {held}",
        )
    with archive.open(f"{name}.npy") as file:
        return _read_shape(file)


def _read_shape(file: IO[bytes]) -> tuple[int, ...]:
    """Read the shape from an array file's header; NumPy would take long to load."""
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
    return shape
