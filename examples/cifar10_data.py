"""CIFAR-10 in whole batches, for the examples beside this file."""

import numpy as np
from tensorflow.keras.datasets import cifar10


def load(samples, multiple):
    """Return training and test data whose sizes are multiples of `multiple`."""
    (x_train, y_train), (x_test, y_test) = cifar10.load_data()
    return (
        _prepare(x_train, y_train, samples, multiple),
        _prepare(x_test, y_test, samples, multiple),
    )


def _prepare(x, y, samples, multiple):
    count = min(len(x), samples) if samples else len(x)
    count -= count % multiple
    if not count:
        raise SystemExit(f"there are fewer than {multiple} samples")
    x = x[:count].astype(np.float32) / 255
    return x, y[:count].reshape(-1).astype(np.int32)
