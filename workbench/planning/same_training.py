"""What a weight update is made of, and how other settings leave it as it is."""

from __future__ import annotations

import math
from dataclasses import replace

from ipu_runtime.plan.rules.weight_updates import (
    rate_text,
    sum_of_gradients,
    update_changes,
)
from workbench.experiment.api_rules import is_captured
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.topology import topology
from workbench.planning.experiment_plan import plan_request, sums_replicas

_MOST_TRIED = 4096
"""Numbers of micro-batches that are looked at."""


def update_samples(spec: ExperimentSpec) -> int:
    """Return the samples of one weight update; 0 where nothing is trained."""
    if spec.train.test_only:
        return 0
    each = spec.data.batch_size * spec.execution.gradient_accumulation
    return each * topology(spec).replicas


def training_changes(before: ExperimentSpec, after: ExperimentSpec) -> tuple[str, ...]:
    """Say what another experiment changes of the training, not of its speed."""
    return update_changes(plan_request(before), plan_request(after))


def with_batch_size(spec: ExperimentSpec, batch_size: int) -> ExperimentSpec:
    """Return the experiment with another micro-batch, and epochs as long as before."""
    samples = spec.train.steps_per_epoch * spec.data.batch_size
    return replace(
        spec,
        data=replace(spec.data, batch_size=batch_size),
        train=replace(spec.train, steps_per_epoch=-(-samples // batch_size)),
    )


def shared_out(
    samples: int, replicas: int, batch_size: int, multiple: int, least: int
) -> tuple[int, int]:
    """Return a micro-batch and how many make up an update, nearest to its samples.

    Of several with as many samples, the micro-batch nearest to `batch_size`.

    Args:
        samples: Samples of a weight update.
        replicas: Copies of the model that share them.
        batch_size: The micro-batch so far.
        multiple: What the number of micro-batches has to be a multiple of.
        least: How many there have to be.
    """
    first = -(-least // multiple) * multiple
    most = min(max(samples // replicas, first), _MOST_TRIED * multiple)
    choices = []
    for accumulation in range(first, most + 1, multiple):
        size = max(round(samples / (replicas * accumulation)), 1)
        off = abs(math.log(size * accumulation * replicas / samples))
        other = abs(math.log(size / batch_size))
        choices.append((off, other, accumulation, size))
    _, _, accumulation, size = min(choices)
    return size, accumulation


def same_rate(before: ExperimentSpec, after: ExperimentSpec) -> ExperimentSpec:
    """Return an experiment with the effective learning rate of another.

    Micro-batches that were not there before are averaged; of what else is summed
    otherwise the learning rate is divided. A script sets its rate itself.
    """
    if before.train.test_only or after.train.test_only:
        return after
    reduction = before.execution.accumulation_reduction
    if before.execution.gradient_accumulation == 1:
        accumulates = after.execution.gradient_accumulation > 1
        reduction = "mean" if accumulates and reduction == "sum" else reduction
    execution = replace(after.execution, accumulation_reduction=reduction)
    after = replace(after, execution=execution)
    factors = _summed(before), _summed(after)
    rate = before.train.learning_rate
    if factors[0] != factors[1] and not is_captured(after):
        rate = float(rate_text(rate * factors[0] / factors[1]))
    return replace(after, train=replace(after.train, learning_rate=rate))


def _summed(spec: ExperimentSpec) -> int:
    execution = spec.execution
    return sum_of_gradients(
        spec.train.optimizer,
        execution.gradient_accumulation * (execution.accumulation_reduction == "sum"),
        topology(spec).replicas * sums_replicas(execution),
    )
