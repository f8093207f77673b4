"""Data that a function of the user's gives: `tf.data`, read into arrays."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from ipu_runtime.datasets.machine_memory import memory_bytes
from ipu_runtime.installing.quiet_import import startup_noise_dropped
from workbench.data.dataset_facts import (
    DatasetError,
    DatasetFacts,
    GivenTensor,
    part_counts,
)
from workbench.models.model_source import ModelSource, SourceError
from workbench.models.reading_cache import keep, kept
from workbench.models.source_files import content_key

_FORMAT = 1


_Samples = tuple[Any, Any]
"""Samples and labels, each as Keras takes them: an array, a tuple, a dictionary."""


def known_function_facts(source: ModelSource, test_share: float) -> DatasetFacts | None:
    """Return what a function with this code gave when it was read, if it was."""
    try:
        row = json.loads(kept(_name(source)))
        if row["format"] != _FORMAT:
            return None
        inputs, outputs = (
            tuple(map(_tensor, row[part])) for part in ("inputs", "outputs")
        )
        return _facts(row["samples"], inputs, outputs, test_share)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        # Whatever is wrong with a cache, the function can be called again.
        return None


def read_function(
    source: ModelSource, test_share: float, tell: Callable[[str], None]
) -> DatasetFacts:
    """Return what a function gives, from the cache if its code is the same."""
    known = known_function_facts(source, test_share)
    if known is None:
        tell(f"reading the data of {source.text} with TensorFlow")
        known = _kept(source, given_parts(source), test_share)
    return known


def load_function_data(
    source: ModelSource, planned: DatasetFacts, test_share: float
) -> tuple[_Samples, ...]:
    """Return the data for training and testing, or say that they are other ones."""
    parts = given_parts(source)
    if _kept(source, parts, test_share) != planned:
        raise DatasetError(
            source.text,
            f"{source.text} gives other samples than when it was read",
            "start again: it has been read anew",
        )
    if len(parts) == 2:
        return parts
    from workbench.training.samples import share_out

    return share_out(parts[0], planned.test_samples)


def given_parts(source: ModelSource) -> tuple[_Samples, ...]:
    """Call the function and read its data set, or the two for training and testing."""
    # Late, because it loads TensorFlow.
    with startup_noise_dropped():
        import tensorflow as tf

    from workbench.models.source_building import explained, imported_function

    with explained(source), contextlib.redirect_stdout(sys.stderr):
        tf.keras.utils.set_random_seed(0)
        given = imported_function(source)()
        both = given if isinstance(given, tuple | list) else (given,)
        if len(both) > 2 or not all(isinstance(d, tf.data.Dataset) for d in both):
            kinds = ", ".join(type(item).__name__ for item in both)
            hint = "give one, or one for training and one for testing"
            raise SourceError(
                f"{source.text} returns {kinds}, no tf.data.Dataset", hint
            )
        return tuple(_read(source, dataset) for dataset in both)


def _read(source: ModelSource, dataset: Any) -> _Samples:
    import keras
    import numpy as np
    import tensorflow as tf

    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) != 2:
        raise SourceError(f"{source.text} gives no pairs of a sample and its labels")
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise SourceError(f"{source.text} gives data without end", "use .take(N)")
    if any(item.dtype == tf.string for item in keras.tree.flatten(spec)):
        hint = "look words up in the function"
        raise SourceError(f"{source.text} gives texts, not numbers", hint)
    shapes = [item.shape for item in keras.tree.flatten(spec)]
    batched = all(shape.rank and shape[0] is None for shape in shapes)
    # Batches of a fixed size look like samples: only open ones are told apart.
    rows = [
        keras.tree.flatten(element)
        for element in _within_memory(source, dataset.as_numpy_iterator())
    ]
    if not rows:
        raise SourceError(f"{source.text} gives no samples")
    columns = [
        (np.concatenate if batched else np.stack)(column)
        for column in zip(*rows, strict=True)
    ]
    for column in columns:
        if column.dtype.kind not in "fiub" or not np.isfinite(column).all():
            raise SourceError(f"{source.text} gives values that are no finite numbers")
    samples: _Samples = keras.tree.pack_sequence_as(spec, columns)
    return samples


def _within_memory(source: ModelSource, elements: Iterator[Any]) -> Iterator[Any]:
    import keras

    size, most = 0, memory_bytes() // 2
    for element in elements:
        size += sum(array.nbytes for array in keras.tree.flatten(element))
        if size > most:
            raise SourceError(
                f"{source.text} gives more than this machine's memory holds",
                "use .take(N)",
            )
        yield element


def _kept(
    source: ModelSource, parts: tuple[_Samples, ...], test_share: float
) -> DatasetFacts:
    """Return the facts of data that were read, kept for the next plan."""
    inputs = _tensors([x for x, _ in parts])
    outputs = _tensors([y for _, y in parts])
    samples = [len(next(iter(_named(x).values()))) for x, _ in parts]
    row = {
        "format": _FORMAT,
        "samples": samples,
        "inputs": [asdict(item) for item in inputs],
        "outputs": [asdict(item) for item in outputs],
    }
    keep(_name(source), json.dumps(row))
    return _facts(samples, inputs, outputs, test_share)


def _facts(
    samples: list[int],
    inputs: tuple[GivenTensor, ...],
    outputs: tuple[GivenTensor, ...],
    test_share: float,
) -> DatasetFacts:
    train, test = part_counts(samples, test_share)
    return DatasetFacts(
        train, test, None, None, pixels=False, inputs=inputs, outputs=outputs
    )


def _tensors(parts: list[Any]) -> tuple[GivenTensor, ...]:
    """Return what the arrays are; those for training and testing must agree."""
    first, *others = map(_named, parts)
    for other in others:
        shapes = [{n: a.shape[1:] for n, a in item.items()} for item in (first, other)]
        if shapes[0] != shapes[1]:
            raise DatasetError("", "the data for training and testing differ in shape")
    return tuple(
        GivenTensor(
            key if isinstance(key, str) else "",
            tuple(array.shape[1:]),
            str(array.dtype),
            _range([item[key] for item in (first, *others)]),
        )
        for key, array in first.items()
    )


def _named(arrays: Any) -> dict[Any, Any]:
    if isinstance(arrays, dict):
        return dict(sorted(arrays.items()))
    return dict(enumerate(arrays if isinstance(arrays, tuple) else (arrays,)))


def _range(arrays: list[Any]) -> tuple[int, int] | None:
    if arrays[0].dtype.kind not in "iub":
        return None
    return min(int(a.min()) for a in arrays), max(int(a.max()) for a in arrays)


def _tensor(row: Any) -> GivenTensor:
    labels = row["labels"]
    return GivenTensor(
        row["name"],
        tuple(row["shape"]),
        row["dtype"],
        tuple(labels) if labels else None,
    )


def _name(source: ModelSource) -> str:
    return f"{content_key(source)}-data.json"
