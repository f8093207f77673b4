"""How many samples and batches an experiment has, without loading its data."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.data.dataset_facts import data_facts
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.topology import topology


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

    Training batches come in whole executions of all replicas, or where the data have
    not one of those in whole weight updates; test batches in units of one per replica.
    Made-up samples are never too few: there are as many as that takes.
    """
    facts = data_facts(spec.data)
    data, made_up = spec.data, is_made_up(spec)
    replicas = max(topology(spec).replicas, 1)
    train = _limited(facts.train_samples, data.train_samples, made_up)
    test = _limited(facts.test_samples, data.test_samples, made_up)
    unit = data.batch_size * replicas
    steps = spec.train.steps_per_epoch
    # One pipeline run of an evaluation takes a multiple of its stages.
    test_unit = unit * (max(spec.pipeline.stages, default=0) + 1)
    train_unit = unit * trimmed_steps(spec)
    if data.preparation == "repeat":
        # The passes follow each other, so only a batch has to be whole.
        train_unit = data.batch_size
    if made_up and data.preparation != "none":
        asked = max(train, steps * data.batch_size)
        train, test = _rounded_up(asked, train_unit), _rounded_up(test, test_unit)
    counted = _count(train, train_unit, data.batch_size, data.preparation)
    if steps:
        counted = _limit_steps(counted, steps, data.batch_size, data.preparation)
    # Evaluation goes through the test data once, so there is nothing to repeat.
    test_preparation = "trim" if data.preparation == "repeat" else data.preparation
    return SampleCounts(
        counted, _count(test, test_unit, data.batch_size, test_preparation)
    )


def is_made_up(spec: ExperimentSpec) -> bool:
    """Tell whether the samples are made to suit the model, as many as it takes."""
    return spec.data.dataset == "synthetic"


def is_steady(spec: ExperimentSpec) -> bool:
    """Tell whether figures are of a steady state: nothing says when an epoch ends."""
    return is_made_up(spec) and spec.execution.steps_per_execution == "epoch"


def trimmed_steps(spec: ExperimentSpec) -> int:
    """Return the steps of each replica that training data are cut into.

    As the documents do: whole executions, each of which holds whole weight updates. Who
    says how many steps an epoch has is taken at his word, and data that have not one
    whole execution are cut into weight updates.
    """
    update = max(spec.execution.gradient_accumulation, 1)
    chosen = spec.execution.steps_per_execution
    if isinstance(chosen, str) or chosen % update or spec.train.steps_per_epoch:
        return update
    if is_made_up(spec):
        return chosen
    data, replicas = spec.data, max(topology(spec).replicas, 1)
    available = _limited(data_facts(data).train_samples, data.train_samples, False)
    whole = available >= data.batch_size * replicas * chosen
    return chosen if whole else update


def sample_words(spec: ExperimentSpec) -> str:
    """Return how many batches an epoch has, and what becomes of the other samples."""
    counted = count(spec).train
    text = f"{counted.batches:,} batches an epoch"
    if is_made_up(spec):
        text += f", of {counted.available:,} made-up samples"
    if counted.dropped:
        text += f", drops {counted.dropped:,} of {counted.available:,} samples"
    if counted.added:
        text += f", adds {counted.added:,} empty samples"
    return text


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


def _limited(available: int, limit: int, made_up: bool) -> int:
    if limit and made_up:
        return limit
    return min(available, limit) if limit else available


def _rounded_up(samples: int, unit: int) -> int:
    return -(-samples // unit) * unit


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
