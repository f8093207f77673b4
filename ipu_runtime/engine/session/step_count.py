"""How many steps, executions and updates a call of `fit` or `evaluate` makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from keras import tree

from ipu_runtime.engine.feeds.feed import INFINITE, UNKNOWN, Feed


@dataclass(frozen=True, slots=True)
class StepCount:
    """The steps of one epoch, per replica."""

    steps: int
    per_execution: int
    replicas: int
    continues: bool
    """Whether one iterator goes on from epoch to epoch."""

    @property
    def batches(self) -> int:
        """Batches of an epoch, over all replicas."""
        return self.steps * self.replicas


def count_steps(
    feed: Feed, requested: int | None, epochs: int, replicas: int, per_execution: int
) -> StepCount:
    """Count steps, or raise what the device's Keras raises.

    Args:
        requested: `steps_per_epoch` or `steps`: batches over all replicas.
    """
    if not isinstance(per_execution, int | np.integer) or per_execution < 1:
        raise ValueError(
            f"`steps_per_execution` is {per_execution!r}, but a program of the device "
            "needs a whole number from 1 on."
        )
    batches = _batches(feed, requested)
    steps = batches // replicas
    explicit = requested is not None and requested != feed.batches
    continues = explicit and not feed.restarts
    _check_enough(feed, steps * (epochs if continues else 1))
    _check_static(feed.element_spec)
    if batches % replicas and feed.batches >= 0:
        tf.get_logger().warning(
            "%d of %d batches are dropped, because they cannot be shared out among %d "
            "replicas.",
            batches % replicas,
            batches,
            replicas,
        )
    if per_execution > steps > 0:
        tf.get_logger().warning(
            "`steps_per_execution` (%d) is larger than the number of steps (%d); it is "
            "lowered to %d for this call.",
            per_execution,
            steps,
            steps,
        )
    lowered = min(per_execution, steps)
    if steps == 0:
        raise ValueError(
            f"The data contains {batches} items, but all {replicas} replicas are "
            "requested to take at least one batch each; give more data or select "
            "fewer IPUs."
        )
    if steps % lowered:
        raise ValueError(
            f"`steps_per_execution` ({lowered}) must be a divisor of the number of "
            f"batches ({steps}) in the dataset provided"
            f"{' to this replica' if replicas > 1 else ''}; the nearest smaller "
            f"divisor is {_divisor_below(steps, lowered)}."
        )
    return StepCount(steps, lowered, replicas, continues)


def _batches(feed: Feed, requested: int | None) -> int:
    if requested is not None:
        return requested
    if feed.batches == INFINITE:
        raise ValueError(
            "When passing an infinitely repeating dataset, you must specify how many "
            "steps to run (`steps_per_epoch`, `steps` or `validation_steps`)."
        )
    if feed.batches == UNKNOWN:
        raise ValueError(
            "Could not infer the size of the data. Specify the number of steps to "
            "run (`steps_per_epoch`, `steps` or `validation_steps`)."
        )
    return feed.batches


def _check_enough(feed: Feed, needed: int) -> None:
    if 0 <= feed.batches < needed:
        raise ValueError(
            f"Your input does not have enough data: {needed} batches are needed, it "
            f"has {feed.batches}. Use `repeat()` on the dataset."
        )


def _check_static(element_spec: Any) -> None:
    for spec in tree.flatten(element_spec):
        if not spec.shape.is_fully_defined():
            raise ValueError(
                f"The data have a shape that is not fully defined: {spec.shape}. "
                "Batch the dataset with `drop_remainder=True`."
            )


def _divisor_below(number: int, limit: int) -> int:
    return next(item for item in range(limit, 0, -1) if number % item == 0)
