"""When checkpoints are taken inside of an epoch, in one process or in all at once."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import tensorflow as tf

from ipu_runtime.engine.build.programs.executable import PieceSize
from ipu_runtime.engine.watch.checkpointer import (
    Checkpointer,
    PartOfEpoch,
    current_checkpointer,
)
from ipu_runtime.frameworks.types import Variable
from ipu_runtime.system.instance_exchange import gather_values, take_from
from ipu_runtime.system.instances import Instance
from ipu_runtime.system.ring import Array

_UNLIMITED = sys.maxsize


class Checkpoints(Protocol):
    """What a loop asks between pieces; batches are counted over replicas."""

    def restore(self) -> int:
        """Put the state of this epoch back; return the steps that it had done."""

    def most(self, batch: int) -> int:
        """Return the batches that the piece after `batch` may have."""

    def take_if_due(self, batch: int) -> None:
        """Let a checkpoint be taken if this is the moment."""


@dataclass(frozen=True)
class EpochState:
    """What a checkpoint inside of an epoch needs to know of the loop."""

    state: Sequence[Variable]
    """What pieces hand on besides weights and the optimizer."""
    update: int
    """Batches of a weight update: between two updates nothing can be saved."""
    batches_per_step: int = 1
    batches: int = _UNLIMITED
    """Of the epoch: who ends it saves it."""
    instance: Instance = field(default_factory=Instance)


def epoch_checkpoints(epoch: EpochState, sizes: PieceSize) -> Checkpoints:
    """Return how checkpoints of a training are taken in this thread."""
    checkpointer = current_checkpointer()
    if checkpointer is None:
        return NoCheckpoints()
    if epoch.instance.count == 1:
        return _OwnCheckpoints(epoch, checkpointer)
    return _CommonCheckpoints(epoch, checkpointer, sizes)


class NoCheckpoints:
    """Nobody takes any."""

    def restore(self) -> int:
        """Return 0: an epoch starts at its first step."""
        return 0

    def most(self, batch: int) -> int:
        """Return what limits no piece."""
        return _UNLIMITED

    def take_if_due(self, batch: int) -> None:
        """Take none."""


class _OwnCheckpoints:
    """As soon as the checkpointer wants one, where no weight update is under way."""

    def __init__(self, epoch: EpochState, checkpointer: Checkpointer) -> None:
        self._epoch, self._checkpointer = epoch, checkpointer

    def restore(self) -> int:
        begun = self._checkpointer.begun()
        if begun is None:
            return 0
        values = self._own(begun.values)
        for variable, value in zip(self._epoch.state, values, strict=True):
            variable.assign(value)
        return begun.step

    def most(self, batch: int) -> int:
        update = self._epoch.update
        return update - batch % update if self._checkpointer.due() else _UNLIMITED

    def take_if_due(self, batch: int) -> None:
        at_update = batch % self._epoch.update == 0 and batch < self._epoch.batches
        if at_update and self._checkpointer.due():
            self._take(batch)

    def _take(self, batch: int) -> None:
        own = [variable.numpy() for variable in self._epoch.state]
        step = batch // self._epoch.batches_per_step
        self._checkpointer.checkpoint(PartOfEpoch(step, self._all(own)))

    def _all(self, own: list[Array]) -> list[Array]:
        """Return what to save of the values of this process."""
        return own

    def _own(self, saved: Sequence[Array]) -> list[Array]:
        """Return what this process goes on with."""
        return list(saved)


class _CommonCheckpoints(_OwnCheckpoints):
    """Where all processes meet: the first one says, each time, where that is next.

    They cut their loops into pieces of their own, and only one clock can decide.
    """

    _meeting = _UNLIMITED

    def __init__(
        self, epoch: EpochState, checkpointer: Checkpointer, sizes: PieceSize
    ) -> None:
        super().__init__(epoch, checkpointer)
        self._sizes = sizes

    def restore(self) -> int:
        step = super().restore()
        if math.isfinite(self._checkpointer.due_in_s()):
            batch = step * self._epoch.batches_per_step
            self._meeting = batch + max(self._agreed(), self._epoch.update)
        return step

    def most(self, batch: int) -> int:
        return self._meeting - batch

    def take_if_due(self, batch: int) -> None:
        if batch != self._meeting or batch >= self._epoch.batches:
            return
        ahead = self._agreed()
        if not ahead:
            self._take(batch)
            ahead = max(self._agreed(), self._epoch.update)
        self._meeting = batch + ahead

    def _all(self, own: list[Array]) -> list[Array]:
        return gather_values(own, self._epoch.instance)

    def _own(self, saved: Sequence[Array]) -> list[Array]:
        return [values[self._epoch.instance.index] for values in saved]

    def _agreed(self) -> int:
        """Return the batches until the next meeting; 0 if it is time for one."""
        own = tf.constant(self._batches_ahead(), tf.int64)
        return int(take_from(0, own, self._epoch.instance))

    def _batches_ahead(self) -> int:
        """Return what this process would say: as far as time allows."""
        left_s, update = self._checkpointer.due_in_s(), self._epoch.update
        if left_s <= 0:
            return 0
        # Before anything is measured the next update is far enough.
        update_s = self._sizes.batch_s * update or left_s
        return math.ceil(left_s / update_s) * update
