"""Tables of the user's: a .csv file whose columns are numbers, and a label column."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ipu_runtime.datasets.machine_memory import memory_bytes
from workbench.data.dataset_facts import (
    DatasetError,
    DatasetFacts,
    as_arrays,
    part_counts,
)


@dataclass(frozen=True, slots=True)
class CsvTable:
    """The content of a file."""

    samples: list[list[float]]
    labels: list[str]
    classes: tuple[str, ...]
    """Names of the classes in order; empty when labels are numbers."""
    real: bool
    """Whether labels are numbers to be met, not class numbers."""


def csv_facts(
    path: Path, stamp: int, label_column: str, test_share: float
) -> DatasetFacts:
    """Return the sizes of a file; it is read once while it does not change."""
    table = read_csv(path, stamp, label_column)
    train, test = part_counts([len(table.labels)], test_share)
    numbers = [] if table.real else label_numbers(table)
    return DatasetFacts(
        train,
        test,
        (len(table.samples[0]),),
        len(table.classes) or None,
        pixels=False,
        label_shape=() if table.real else None,
        labels=(min(numbers), max(numbers)) if numbers else None,
    )


def label_numbers(table: CsvTable) -> list[Any]:
    """Return the labels as numbers; names of classes count in alphabetical order."""
    if table.classes:
        number_of = {name: number for number, name in enumerate(table.classes)}
        return [number_of[label] for label in table.labels]
    return [float(label) if table.real else int(label) for label in table.labels]


def load_csv(path: Path, label_column: str, facts: DatasetFacts) -> dict[str, Any]:
    """Return samples and labels as arrays, shared out for training and testing."""
    # Late, because plans do without NumPy.
    import numpy as np

    from workbench.training.samples import share_out

    table = read_csv(path, path.stat().st_mtime_ns, label_column)
    labels = np.array(label_numbers(table))
    if len(labels) != facts.train_samples + facts.test_samples:
        raise DatasetError(str(path), f"{path} has changed since it was planned")
    both = np.array(table.samples), labels
    return as_arrays(*share_out(both, facts.test_samples))


@lru_cache(maxsize=4)
def read_csv(path: Path, stamp: int, label_column: str) -> CsvTable:
    """Return a file's rows as numbers, or say in which row something else stands."""
    del stamp  # Part of the key, so that a changed file is read again.
    if not path.is_file():
        raise DatasetError(str(path), f"{path} is not a file")
    # A number of a few characters becomes an object of Python's.
    if path.stat().st_size * 8 > memory_bytes():
        raise DatasetError(str(path), f"{path} is too large for this machine's memory")
    samples, labels = [], []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file)
            names = [name.strip() for name in next(rows, [])]
            if not names:
                raise DatasetError(str(path), f"{path} is empty")
            place = _label_place(path, names, label_column)
            for number, row in _whole_rows(path, rows, len(names)):
                labels.append(row.pop(place).strip())
                samples.append(_numbers(path, number, row, names, place))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(str(path), f"{path} is no .csv file: {error}") from error
    if not samples:
        raise DatasetError(str(path), f"{path} has no samples below its first row")
    if not samples[0]:
        raise DatasetError(str(path), f"{path} has no samples beside its labels")
    if "" in labels:
        first = labels.index("") + 1
        raise DatasetError(str(path), f"{path}: sample {first} has no {label_column}")
    return CsvTable(samples, labels, *_label_kind(labels))


def _label_place(path: Path, names: list[str], label_column: str) -> int:
    if label_column not in names:
        raise DatasetError(
            str(path),
            f'{path} has no column "{label_column}"',
            f"set data.label_column to one of: {', '.join(names[:20])}",
        )
    if names.count(label_column) > 1:
        text = f'{path} has several columns "{label_column}"'
        raise DatasetError(str(path), text, "give the others another name")
    return names.index(label_column)


def _whole_rows(
    path: Path, rows: Iterator[list[str]], columns: int
) -> Iterator[tuple[int, list[str]]]:
    for number, row in enumerate(rows, start=2):
        if not row:
            continue
        if len(row) != columns:
            text = f"{path}: row {number} has {len(row)} values, the first {columns}"
            raise DatasetError(str(path), text)
        yield number, row


def _numbers(
    path: Path, number: int, row: list[str], names: list[str], place: int
) -> list[float]:
    values = []
    for column, text in enumerate(row):
        value = _number(text)
        if value is None or not math.isfinite(value):
            name = [*names[:place], *names[place + 1 :]][column]
            problem = f'{path}: row {number}, column {name}: "{text}" is no number'
            hint = "every column beside the labels needs numbers"
            raise DatasetError(str(path), problem, hint)
        values.append(value)
    return values


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _label_kind(labels: list[str]) -> tuple[tuple[str, ...], bool]:
    """Return the names of classes, and whether labels are numbers to be met."""
    values = [_number(label) for label in labels]
    if any(value is None or not math.isfinite(value) for value in values):
        return tuple(sorted(set(labels))), False
    whole = all(label.lstrip("+-").isdecimal() for label in labels)
    return (), not whole
