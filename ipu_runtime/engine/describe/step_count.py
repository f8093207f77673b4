"""How many steps and executions a call of `fit` or `evaluate` makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.engine.feeds.feed import INFINITE, UNKNOWN, Feed
from ipu_runtime.frameworks.keras_api import tree
from ipu_runtime.plan.rules.count_rules import STEPS, check_positive


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


def count_batches(feed: Feed, requested: int | None, per_execution: Any) -> int:
    """Return the batches of an epoch over all replicas; raise for unfit data.

    Args:
        feed: The data.
        requested: `steps_per_epoch` or `steps`: batches over all replicas.
        per_execution: `steps_per_execution` of the compiled model.
    """
    raise_for(check_positive("steps_per_execution", per_execution, STEPS))
    for spec in tree.flatten(feed.element_spec):
        if not spec.shape.is_fully_defined():
            raise ValueError(
                f"The data have a shape that is not fully defined: {spec.shape}. "
                "Batch the dataset with `drop_remainder=True`."
            )
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


def count_steps(
    feed: Feed, requested: int | None, epochs: int, replicas: int, per_execution: int
) -> StepCount:
    """Count the steps of a call that the rules of the device allow.

    ValueError if the data end before the steps do.
    """
    batches = requested if requested is not None else feed.batches
    steps = batches // replicas
    explicit = requested is not None and requested != feed.batches
    continues = explicit and not feed.restarts
    needed = steps * (epochs if continues else 1)
    if 0 <= feed.batches < needed:
        raise ValueError(
            f"Your input does not have enough data: {needed} batches are needed, it "
            f"has {feed.batches}. Use `repeat()` on the dataset."
        )
    return StepCount(steps, min(per_execution, steps), replicas, continues)
