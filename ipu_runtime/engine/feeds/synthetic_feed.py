"""Data that are made on the device: `--use_synthetic_data`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.engine.feeds.feed import DatasetFeed, Feed
from ipu_runtime.frameworks.keras_api import tree

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
