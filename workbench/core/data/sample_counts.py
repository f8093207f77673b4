"""How many samples and batches an experiment has, without loading its data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.core.data.dataset_facts import data_facts
from workbench.core.experiment.experiment_spec import ExperimentSpec
from workbench.core.experiment.topology import topology


@dataclass(frozen=True, slots=True)
class PartCount:
    """Samples of the training or of the test data."""

    available: int
    """Samples taken from the data set."""
    samples: int
    """Samples of one epoch, padding included; repeated ones count each time."""
    batches: int
    """Batches of one epoch over all replicas."""
    prepared: int
    """Samples after preparation, padding included; one pass over the data."""
    dropped: int = 0
    """Samples that an epoch leaves out because they do not fill a batch."""
    added: int = 0
    """Samples of zeros that fill the last batch, with sample weight 0."""


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """Samples and batches of an experiment."""

    train: PartCount
    test: PartCount

    @property
    def dropped(self) -> int:
        """Training samples that an epoch leaves out."""
        return self.train.dropped

    @property
    def added(self) -> int:
        """Training samples of zeros."""
        return self.train.added


def count(spec: ExperimentSpec) -> SampleCounts:
    """Return the samples and batches of an experiment.

    Training batches come in units of one per replica and micro-batch of a weight
    update; test batches in units of one per replica.
    """
    facts = data_facts(spec.data)
    data = spec.data
    replicas = max(topology(spec).replicas, 1)
    train = _limited(facts.train_samples, data.train_samples, data.dataset)
    test = _limited(facts.test_samples, data.test_samples, data.dataset)
    unit = data.batch_size * replicas
    train_unit = unit * max(spec.execution.gradient_accumulation, 1)
    if data.preparation == "repeat":
        # The passes follow each other, so only a batch has to be whole.
        train_unit = data.batch_size
    counted = _count(train, train_unit, data.batch_size, data.preparation)
    steps = spec.train.steps_per_epoch
    if steps:
        counted = _limit_steps(counted, steps, data.batch_size, data.preparation)
    # Evaluation goes through the test data once, so there is nothing to repeat.
    test_preparation = "trim" if data.preparation == "repeat" else data.preparation
    # One pipeline run of an evaluation takes a multiple of its stages.
    test_unit = unit * (max(spec.pipeline.stages, default=0) + 1)
    return SampleCounts(
        counted, _count(test, test_unit, data.batch_size, test_preparation)
    )


def training_steps_per_execution(spec: ExperimentSpec) -> int:
    """Return the steps of one training execution, on each replica."""
    steps = count(spec).train.batches // max(topology(spec).replicas, 1)
    chosen = spec.execution.steps_per_execution
    return max(steps, 1) if isinstance(chosen, str) else chosen


def evaluation_steps_per_execution(spec: ExperimentSpec) -> int:
    """Return the steps of one evaluation execution: the most that divide the epoch.

    A pipeline's execution must also be a multiple of its stages.
    """
    steps = count(spec).test.batches // max(topology(spec).replicas, 1)
    wanted = spec.execution.steps_per_execution
    wanted = steps if isinstance(wanted, str) else min(wanted, steps)
    stages = max(spec.pipeline.stages, default=0) + 1
    for candidate in range(max(wanted, stages), stages - 1, -1):
        if steps % candidate == 0 and candidate % stages == 0:
            return candidate
    return max(steps, 1)


def _limited(available: int, limit: int, dataset: str) -> int:
    if limit and dataset == "synthetic":
        return limit
    return min(available, limit) if limit else available


def _count(available: int, unit: int, batch_size: int, preparation: str) -> PartCount:
    rest = available % unit
    if preparation == "none":
        return PartCount(available, available, -(-available // batch_size), available)
    if preparation == "pad":
        added = (unit - rest) % unit
        samples = available + added
        batches = samples // batch_size
        return PartCount(available, samples, batches, samples, added=added)
    samples = available - rest
    return PartCount(available, samples, samples // batch_size, samples, rest)


def _limit_steps(
    counted: PartCount, steps: int, batch_size: int, preparation: str
) -> PartCount:
    if preparation == "repeat":
        return replace(counted, samples=steps * batch_size, batches=steps)
    if steps >= counted.batches:
        return counted
    samples = steps * batch_size
    dropped = max(counted.available - samples, 0)
    return replace(counted, samples=samples, batches=steps, dropped=dropped)
