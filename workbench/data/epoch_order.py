"""In which order an epoch sees the training samples.

The order depends on the seed and the epoch alone, so that a resumed run sees what an
uninterrupted one would have seen, whatever executes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.data.sample_counts import count
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.topology import topology
from workbench.training.samples import (
    Indices,
    epoch_of_many_passes,
    epoch_of_one_pass,
    own_share,
    plain_pass,
    shuffled_pass,
)


@dataclass(frozen=True, slots=True)
class EpochOrder:
    """The order of the samples in every epoch."""

    samples: int
    """Samples of one pass over the data."""
    per_epoch: int
    """Samples of one epoch; more or fewer than a pass when data repeat."""
    seed: int
    shuffle: bool
    continues: bool
    """Whether an epoch goes on where the one before it ended."""
    per_step: int = 1
    """Samples of one step of all replicas."""

    def indices(self, epoch: int) -> Indices:
        """Return which samples an epoch takes, in order; epochs count from 1."""
        ordered = epoch_of_many_passes if self.continues else epoch_of_one_pass
        one_pass = shuffled_pass if self.shuffle else plain_pass
        return ordered(epoch - 1, self.samples, self.per_epoch, self.seed, one_pass)

    def share(self, epoch: int, instance: int, instances: int) -> Indices:
        """Return the samples of one of the processes that train together."""
        whole = self.indices(epoch)
        if instances == 1:
            return whole
        return own_share(whole, self.per_step, instance, instances)


def training_order(spec: ExperimentSpec) -> EpochOrder:
    """Return the order of an experiment's training samples."""
    counted = count(spec).train
    return EpochOrder(
        samples=counted.prepared,
        per_epoch=counted.samples,
        seed=spec.experiment.seed,
        shuffle=spec.data.shuffle,
        continues=spec.data.preparation == "repeat",
        per_step=spec.data.batch_size * max(topology(spec).replicas, 1),
    )
