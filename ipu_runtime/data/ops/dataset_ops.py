"""Data sets that hold elements back: `ipu.data.ops.dataset_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class BufferDataset(tf.data.Dataset):
    """Gives elements only in whole groups of `buffer_size`; the rest is left out."""

    def __new__(cls, input_dataset: Any, buffer_size: int) -> Any:
        """Return a data set of TensorFlow's: its own class cannot be derived from."""
        return input_dataset.batch(buffer_size, drop_remainder=True).unbatch()

    def __init__(self, input_dataset: Any, buffer_size: int) -> None:
        """Say what `__new__` takes."""
