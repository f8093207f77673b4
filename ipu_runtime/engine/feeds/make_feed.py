"""The data arguments of `fit`, `evaluate` and `predict` as a feed, or why not."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.feeds.feed import ArrayFeed, DatasetFeed, Feed, class_weights
from ipu_runtime.engine.feeds.synthetic_feed import SyntheticFeed
from ipu_runtime.frameworks.keras_api import keras, tree
from ipu_runtime.system.poplar_flags import SyntheticDataCategory, current_flags

_DEFAULT_BATCH_SIZE = 32


def make_feed(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int | None = None,
    shuffle: bool = False,
    class_weight: Mapping[int, float] | None = None,
    infeed: Mapping[str, Any] | None = None,
) -> Feed:
    """Return the feed for the data; raises what the device's Keras raises."""
    feed = _real_feed(x, y, sample_weight, batch_size, shuffle, class_weight, infeed)
    flags = current_flags()
    if SyntheticDataCategory.Infeed in flags.synthetic:
        return SyntheticFeed(feed, flags.synthetic_data_initializer)
    return feed


def _real_feed(
    x: Any,
    y: Any,
    sample_weight: Any,
    batch_size: int | None,
    shuffle: bool,
    class_weight: Mapping[int, float] | None,
    infeed: Mapping[str, Any] | None,
) -> Feed:
    if isinstance(x, ArrayFeed):
        return x
    if isinstance(x, tf.data.Dataset):
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None:
                raise ValueError(
                    f"`{name}` must not be given with a data set: it yields them."
                )
        prefetch = int((infeed or {}).get("prefetch_depth", tf.data.AUTOTUNE))
        return DatasetFeed(x, class_weight, prefetch)
    if isinstance(x, (types.GeneratorType, Iterator, keras.utils.PyDataset)):
        raise ValueError(
            f"x is a {type(x).__name__}: generators and iterators have no static "
            "shapes. Use `tf.data.Dataset.from_generator` instead."
        )
    return _array_feed(x, y, sample_weight, batch_size, shuffle, class_weight)


def _array_feed(
    x: Any,
    y: Any,
    sample_weight: Any,
    batch_size: int | None,
    shuffle: bool,
    class_weight: Mapping[int, float] | None,
) -> ArrayFeed:
    if x is None or not tree.flatten(x) or len(tree.flatten(x)[0]) == 0:
        raise ValueError("Expect x to be a non-empty array or dataset.")
    if class_weight is not None:
        if sample_weight is not None:
            raise ValueError("class_weight and sample_weight cannot both be given.")
        sample_weight = class_weights(y, class_weight)
    batch_size = batch_size or _DEFAULT_BATCH_SIZE
    arrays = tree.map_structure(_array, _packed(x, y, sample_weight))
    lengths = {len(array) for array in tree.flatten(arrays)}
    if len(lengths) > 1:
        raise ValueError(
            f"All arrays must have the same number of samples, not {sorted(lengths)}."
        )
    samples = lengths.pop()
    if samples % batch_size:
        raise ValueError(
            f"The data have {samples} samples, which leaves a partial batch of "
            f"{samples % batch_size} with batch_size={batch_size}. All shapes are "
            f"static: use {samples - samples % batch_size} samples, or a batch size "
            "that divides their number."
        )
    return ArrayFeed(arrays, batch_size, shuffle)


def _packed(x: Any, y: Any, sample_weight: Any) -> Any:
    if sample_weight is not None:
        return x, y, sample_weight
    return (x, y) if y is not None else (x,)


def _array(value: Any) -> Any:
    """Return arrays and tensors as they are, and pandas objects as arrays."""
    return value.to_numpy() if hasattr(value, "to_numpy") else value
