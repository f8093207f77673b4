"""Which samples a step sees: kept, padded, shared out and put in order.

Every function here is called by runs, and printed as it stands into the scripts that
need it, without hints: it may use NumPy as `np`, and other functions of this file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def count_samples(samples: Any) -> int:
    """Return the number of samples in arrays, tuples or dictionaries of them."""
    while isinstance(samples, (tuple, dict)):
        names = samples if isinstance(samples, dict) else range(len(samples))
        samples = samples[next(iter(names))]
    return len(samples)


def take(samples: Any, rows: Any) -> Any:
    """Return some samples of arrays, tuples or dictionaries of them."""
    if isinstance(samples, tuple):
        return tuple(take(values, rows) for values in samples)
    if isinstance(samples, dict):
        return {name: take(values, rows) for name, values in samples.items()}
    return samples[rows]


def trim(samples: Any, multiple: int) -> Any:
    """Leave out what follows the last whole batch."""
    whole = count_samples(samples) // multiple * multiple
    return take(samples, slice(whole))


def add_zeros(samples: Any, count: int) -> Any:
    """Add samples of zeros to arrays, tuples or dictionaries of them."""
    if isinstance(samples, tuple):
        return tuple(add_zeros(values, count) for values in samples)
    if isinstance(samples, dict):
        return {name: add_zeros(values, count) for name, values in samples.items()}
    return np.pad(samples, [(0, count)] + [(0, 0)] * (samples.ndim - 1))


def pad(samples: Any, multiple: int) -> Any:
    """Fill up the last batch, and add the weight of every sample."""
    count = count_samples(samples)
    missing = -count % multiple
    # What is added weighs 0, so that it counts neither for loss nor metrics.
    weight = add_zeros(np.ones(count, "float32"), missing)
    return (*add_zeros(samples, missing), weight)


def share_out(samples: Any, test_samples: int) -> tuple[Any, Any]:
    """Return samples to train and to test with, the same ones for every seed."""
    count = count_samples(samples)
    order = np.random.default_rng(0).permutation(count)
    train, test = np.split(order, [count - test_samples])
    return take(samples, train), take(samples, test)


def shuffled_pass(number: int, samples: int, seed: int) -> Indices:
    """Return the order of a pass, which depends on seed and number alone."""
    return np.random.default_rng([seed, number]).permutation(samples)


def plain_pass(number: int, samples: int, seed: int) -> Indices:
    """Return the order of a pass: that of the data."""
    return np.arange(samples)


def epoch_of_one_pass(
    epoch: int, samples: int, per_epoch: int, seed: int, one_pass: Any
) -> Indices:
    """Return which samples an epoch takes, counted from 0: a pass, or part of one."""
    return one_pass(epoch, samples, seed)[:per_epoch]


def epoch_of_many_passes(
    epoch: int, samples: int, per_epoch: int, seed: int, one_pass: Any
) -> Indices:
    """Return which samples an epoch takes, counted from 0, of data that repeat."""
    # Passes over the data follow each other without regard to epochs.
    first = epoch * per_epoch
    passes = range(first // samples, (first + per_epoch - 1) // samples + 1)
    stream = np.concatenate([one_pass(n, samples, seed) for n in passes])
    return stream[first % samples :][:per_epoch]


def own_share(order: Indices, per_step: int, instance: int, instances: int) -> Indices:
    """Return the samples of one of the processes that train together."""
    # Each has the batches that its replicas would have in one process.
    steps = len(order) // per_step
    parts = order[: steps * per_step].reshape(steps, instances, -1)
    return parts[:, instance].reshape(-1)
