"""MNIST for the examples beside this file, and three ways to whole batches.

A program on an IPU has fixed shapes, so it cannot take a last, smaller batch.
"""

import numpy as np
import tensorflow as tf
from tensorflow import keras

NUM_CLASSES = 10


def load(samples=0):
    """Return training and test data, each as images and one-hot rows; 0 means all."""
    return tuple(
        _as_floats(images[: samples or None], labels[: samples or None])
        for images, labels in keras.datasets.mnist.load_data()
    )


def _as_floats(images, labels):
    # One channel: convolutions want it named.
    images = images[..., np.newaxis].astype(np.float32) / 255
    return images, np.eye(NUM_CLASSES, dtype=np.float32)[labels]


def trim(data, multiple):
    """Leave out what follows the last whole multiple of samples."""
    left_out = len(data[0]) % multiple
    if left_out:
        print(f"{left_out} of {len(data[0])} samples are left out")
    kept = len(data[0]) - left_out
    if not kept:
        raise SystemExit(f"there are fewer than {multiple} samples")
    return tuple(array[:kept] for array in data)


def pad(data, multiple):
    """Fill up with zeros; a third array weighs samples 1 and what was added 0."""
    added = -len(data[0]) % multiple
    print(f"{added} samples of zeros are added to {len(data[0])}")
    weighed = (*data, np.ones(len(data[0]), np.float32))
    return tuple(
        np.concatenate([array, np.zeros((added, *array.shape[1:]), array.dtype)])
        for array in weighed
    )


def repeat(data, batch_size):
    """Return batches without an end: an epoch starts where the last one stopped."""
    samples = tf.data.Dataset.from_tensor_slices(data).repeat()
    return samples.batch(batch_size, drop_remainder=True)
