"""Data and variables, written to files and read back: `ipu.dataset_extractor`.

Files hold arrays in NumPy's own format, whatever they are called. Variables go by the
names that they have without the number of an output: `w` for `w:0`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue


def dataset_extractor(
    dataset: Any,
    num_elements: int,
    filename: str,
    feed_name: str,
    print_stats: bool = True,
) -> Any:
    """Return what writes the first elements of a data set, stacked, to a file.

    Elements of several tensors go to one file each: `data.0.bin`, `data.1.bin`, ...
    """
    if num_elements < 1:
        raise ValueError(f"`num_elements` is {num_elements}; it must be at least 1.")
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(f"`dataset` must be a tf.data.Dataset, not {dataset!r}.")
    stacked = dataset.take(num_elements).batch(num_elements).get_single_element()
    tensors = tf.nest.flatten(stacked)
    file = Path(filename)
    files = [
        file.with_name(f"{file.stem}.{index}{file.suffix}")
        if len(tensors) > 1
        else file
        for index in range(len(tensors))
    ]

    def write(*arrays: np.ndarray) -> None:
        found = len(arrays[0])
        if found < num_elements:
            raise ValueError(
                f"`num_elements` is {num_elements}, but the data set has {found}."
            )
        for path, array in zip(files, arrays, strict=True):
            with path.open("wb") as output:
                np.save(output, array, allow_pickle=False)
        if print_stats:
            names = ", ".join(str(path) for path in files)
            print(f"{feed_name or 'dataset'}: {found} elements written to {names}")

    return tf.numpy_function(write, tensors, [])


def export_dataset_to_file(
    dataset_or_infeed: Any,
    output_filename: str,
    num_elements: int,
    feed_name: str = "",
    apply_debug_options: bool = True,
) -> None:
    """Write the first elements of a data set or an infeed to files, at once."""
    del apply_debug_options
    dataset = dataset_or_infeed
    if isinstance(dataset, IPUInfeedQueue):
        feed_name = feed_name or dataset.feed_name
        dataset = dataset.host_dataset
    written = dataset_extractor(dataset, num_elements, output_filename, feed_name)
    if not tf.executing_eagerly():
        with tf.compat.v1.Session() as session:
            session.run(written)


def export_inputs_to_file(
    inputs: Sequence[Any], output_filename: str, feed_dict: Mapping[Any, Any] | None
) -> None:
    """Write the values of a graph's inputs to a file, by their names."""
    if tf.executing_eagerly():
        raise RuntimeError(
            "export_inputs_to_file writes inputs of a graph, and there is none in "
            "eager mode."
        )
    names = [_stem(item.name) for item in inputs]
    written = export_variables(inputs, names, output_filename, print_stats=False)
    with tf.compat.v1.Session() as session:
        session.run(written, feed_dict)


def get_variable_handles(variables: Sequence[Any]) -> list[str]:
    """Return the names that variables are exported under."""
    return [_stem(variable.name) for variable in variables]


def export_variables(
    variables: Sequence[Any],
    names: Sequence[str],
    filename: str,
    metadata: str | None = None,
    print_stats: bool = True,
) -> Any:
    """Return what writes the values of variables or tensors to one file."""
    if metadata:
        raise NotImplementedError(
            "export_variables: `metadata` describes a Poplar executable, and there is "
            "none here; leave it out."
        )
    stems = [_stem(name) for name in names]
    if len(stems) != len(variables):
        raise ValueError(
            f"{len(stems)} names are given for {len(variables)} variables."
        )

    def write(*arrays: Any) -> None:
        with Path(filename).open("wb") as output:
            np.savez(output, **dict(zip(stems, arrays, strict=True)))
        if print_stats:
            print(f"{len(stems)} variables written to {filename}")

    tensors = [tf.convert_to_tensor(variable) for variable in variables]
    return tf.numpy_function(write, tensors, [])


def import_variables(
    variables: Sequence[Any],
    filenames: Sequence[str],
    is_input: bool = True,
    strict: bool = True,
    print_stats: bool = True,
) -> list[Any]:
    """Return what assigns the values in files to variables of the same names.

    Strict means that the files hold nothing else.
    """
    del is_input
    stems = get_variable_handles(variables)

    def read() -> list[np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for filename in filenames:
            with np.load(filename, allow_pickle=False) as arrays:
                found.update(arrays)
        _check_found(found, dict(zip(stems, variables, strict=True)), strict)
        if print_stats:
            print(f"{len(stems)} variables read from {', '.join(filenames)}")
        return [found[stem] for stem in stems]

    values = tf.numpy_function(read, [], [variable.dtype for variable in variables])
    return [
        variable.assign(tf.ensure_shape(value, variable.shape))
        for variable, value in zip(variables, tf.nest.flatten(values), strict=True)
    ]


def _check_found(
    found: Mapping[str, np.ndarray], wanted: Mapping[str, Any], strict: bool
) -> None:
    missing = sorted(wanted.keys() - found.keys())
    more = sorted(found.keys() - wanted.keys()) if strict else []
    if missing or more:
        raise ValueError(
            f"The files lack {missing} and hold {more} besides what is asked for; they "
            f"have {sorted(found)}."
        )
    for stem, variable in wanted.items():
        array, dtype = found[stem], variable.dtype.as_numpy_dtype
        if array.shape != tuple(variable.shape) or array.dtype != dtype:
            raise ValueError(
                f"{stem} is {array.dtype}{list(array.shape)} in the files; the "
                f"variable is {np.dtype(dtype)}{list(variable.shape)}."
            )


def _stem(name: str) -> str:
    return name.partition(":")[0]
