"""Where a program gets its batches from: arrays that are cut, or a data set.

`make_feed` makes the data arguments of `fit`, `evaluate` and `predict` a feed, or says
why not; a loop in TensorFlow reads it with `read_batch`.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ipu_runtime.frameworks.keras_api import keras, tree, unpack_x_y_sample_weight
from ipu_runtime.system.poplar_flags import SyntheticDataCategory, current_flags

INFINITE: int = tf.data.INFINITE_CARDINALITY
UNKNOWN: int = tf.data.UNKNOWN_CARDINALITY


class Feed(Protocol):
    """A source of batches that a TensorFlow loop can read with `read_batch`."""

    @property
    def batches(self) -> int:
        """Batches that there are; `INFINITE` and `UNKNOWN` are possible."""

    @property
    def batch_size(self) -> int:
        """Samples of a batch."""

    @property
    def element_spec(self) -> Any:
        """Types and shapes of a batch."""

    @property
    def restarts(self) -> bool:
        """Whether data always start again with an epoch."""

    def source(self) -> Any:
        """Return what a program reads an epoch from: tensors or an iterator."""


def read_batch(source: Any, index: Any) -> Any:
    """Return a batch; used inside a program."""
    if isinstance(source, tf.data.Iterator):
        return source.get_next()
    arrays, order = source
    rows = order[index]
    return tree.map_structure(lambda array: tf.gather(array, rows), arrays)


class ArrayFeed:
    """Batches of arrays, in an order that may change from epoch to epoch."""

    restarts = True

    def __init__(self, arrays: Any, batch_size: int, shuffle: bool) -> None:
        self._arrays = tree.map_structure(_tensor, arrays)
        self._samples = int(tree.flatten(self._arrays)[0].shape[0])
        self.batch_size = batch_size
        self._shuffle = shuffle

    @property
    def batches(self) -> int:
        """Whole batches that the arrays have."""
        return self._samples // self.batch_size

    @property
    def element_spec(self) -> Any:
        """Types and shapes of a batch."""
        return tree.map_structure(
            lambda array: tf.TensorSpec(
                (self.batch_size, *array.shape[1:]), array.dtype
            ),
            self._arrays,
        )

    def source(self) -> Any:
        """Return the arrays, and the samples of every batch."""
        order = np.arange(self._samples, dtype=np.int32)
        if self._shuffle:
            # Keras shuffles arrays with a seed drawn from the same global state.
            np.random.shuffle(order)
        return self._arrays, tf.constant(order.reshape(-1, self.batch_size))


class OrderedFeed(ArrayFeed):
    """Batches of arrays in an order that is set for every epoch."""

    def __init__(self, arrays: Any, batch_size: int) -> None:
        super().__init__(arrays, batch_size, shuffle=False)
        self.order: npt.NDArray[np.signedinteger[Any]] = np.arange(self._samples)
        """Samples of one epoch; they may repeat, or some may be left out."""

    @property
    def batches(self) -> int:
        """Whole batches that the order has."""
        return len(self.order) // self.batch_size

    def source(self) -> Any:
        """Return the arrays, and the samples of every batch."""
        rows = self.order[: self.batches * self.batch_size].astype(np.int32)
        return self._arrays, tf.constant(rows.reshape(-1, self.batch_size))


class DatasetFeed:
    """Batches of a `tf.data.Dataset`."""

    restarts = False

    def __init__(
        self,
        dataset: tf.data.Dataset,
        class_weight: Mapping[int, float] | None,
        prefetch: int,
    ) -> None:
        self.batches = int(dataset.cardinality())
        device_spec = tree.map_structure(_device_spec, dataset.element_spec)
        if device_spec != dataset.element_spec:
            dataset = dataset.map(
                lambda *element: tree.map_structure(_device_type, _element(element))
            )
        if class_weight:
            dataset = dataset.map(
                lambda *element: _weighted(_element(element), class_weight)
            )
        self.element_spec = dataset.element_spec
        self._dataset = dataset.prefetch(prefetch)

    @property
    def batch_size(self) -> int:
        """Samples of a batch."""
        return int(tree.flatten(self.element_spec)[0].shape[0])

    def source(self) -> Any:
        """Return an iterator."""
        with tf.device("/CPU:0"):
            return iter(self._dataset)


def _element(parts: tuple[Any, ...]) -> Any:
    return parts if len(parts) > 1 else parts[0]


def _weighted(element: Any, class_weight: Mapping[int, float]) -> tuple[Any, Any, Any]:
    x, y, sample_weight = unpack_x_y_sample_weight(element)
    if sample_weight is not None:
        raise ValueError(
            "class_weight cannot be used with data that have sample weights."
        )
    return x, y, class_weights(y, class_weight)


def class_weights(y: Any, class_weight: Mapping[int, float]) -> Any:
    """Return the weight of every sample by its class; others weigh 1."""
    labels = tf.convert_to_tensor(y)
    if labels.shape.rank > 1:
        one_hot = labels.shape[-1] != 1
        labels = tf.argmax(labels, -1) if one_hot else tf.squeeze(labels, -1)
    weights = tf.ones(tf.shape(labels), tf.float32)
    for number, weight in class_weight.items():
        chosen = tf.equal(tf.cast(labels, tf.int32), number)
        weights = tf.where(chosen, tf.constant(weight, tf.float32), weights)
    return weights


def _device_spec(spec: Any) -> Any:
    if spec.dtype == tf.float64:
        return tf.TensorSpec(spec.shape, tf.float32)
    return spec


def _device_type(tensor: Any) -> Any:
    return tf.cast(tensor, tf.float32) if tensor.dtype == tf.float64 else tensor


def _tensor(array: Any) -> Any:
    if isinstance(array, np.ndarray) and array.dtype == np.float64:
        array = array.astype(np.float32)
    return _device_type(tf.convert_to_tensor(array))


_SEED = (7, 0)


class SyntheticFeed(DatasetFeed):
    """One batch, made once, in the place of all batches of another feed."""

    def __init__(self, replaced: Feed, initializer: str) -> None:
        batch = tree.map_structure(
            lambda spec: synthetic_tensor(spec, initializer), replaced.element_spec
        )
        super().__init__(tf.data.Dataset.from_tensors(batch).repeat(), None, 1)
        self.batches = replaced.batches
        self.restarts = replaced.restarts


def synthetic_tensor(spec: Any, initializer: str) -> Any:
    """Return a value as an initializer makes it; zeros without one.

    Whole numbers are at most 1, because the host refuses labels that are out of range
    where a device would compute something.
    """
    shape, dtype = spec.shape, spec.dtype
    if not initializer:
        return tf.zeros(shape, dtype)
    if initializer == "normal":
        if not dtype.is_floating:
            return tf.ones(shape, dtype)
        return tf.cast(tf.random.stateless_normal(shape, _SEED), dtype)
    if initializer in ("random", "uniform"):
        drawn = tf.random.stateless_uniform(shape, _SEED)
        if not dtype.is_floating:
            return tf.cast(drawn > 0.5, dtype)
        widest = float(dtype.max) if initializer == "uniform" else 0.5
        return tf.cast((drawn * 2.0 - 1.0) * widest, dtype)
    return tf.cast(tf.fill(shape, int(initializer)), dtype)


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
