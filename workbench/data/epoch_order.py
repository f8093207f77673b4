"""In which order an epoch sees the training samples.

The order depends on the seed and the epoch alone, so that a resumed run sees what an
uninterrupted one would have seen, whatever executes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workbench.data.sample_counts import count
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.topology import topology

Indices = npt.NDArray[np.int64]


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
        if not self.continues:
            return self._pass(epoch - 1)[: self.per_epoch]
        first = (epoch - 1) * self.per_epoch
        last = first + self.per_epoch
        passes = range(first // self.samples, (last - 1) // self.samples + 1)
        stream = np.concatenate([self._pass(number) for number in passes])
        offset = first - passes.start * self.samples
        return stream[offset : offset + self.per_epoch]

    def share(self, epoch: int, instance: int, instances: int) -> Indices:
        """Return the samples of one of the processes that train together.

        Each has the batches that its replicas would have in one process.
        """
        whole = self.indices(epoch)
        if instances == 1:
            return whole
        steps = len(whole) // self.per_step
        parts = whole[: steps * self.per_step].reshape(steps, instances, -1)
        return parts[:, instance].reshape(-1)

    def _pass(self, number: int) -> Indices:
        if not self.shuffle:
            return np.arange(self.samples, dtype=np.int64)
        return np.random.default_rng([self.seed, number]).permutation(self.samples)


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
