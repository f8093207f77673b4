"""When an epoch lets its keeper keep it, in one process or in all of a job at once."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from ipu_runtime.engine.build.replicas.instance_exchange import gather_values, take_from
from ipu_runtime.engine.run.work import Work
from ipu_runtime.engine.watch.keeping import Keeper, PartOfEpoch, current_keeper
from ipu_runtime.system.ring import Array

_UNLIMITED = sys.maxsize


class EpochKeeping(Protocol):
    """What an epoch asks between pieces; batches are counted over its replicas."""

    def begin(self) -> int:
        """Put back what was kept of this epoch; return the steps it had done."""

    def most(self, batch: int) -> int:
        """Return the batches that the piece after `batch` may have."""

    def keep(self, batch: int) -> None:
        """Let the epoch be kept if this is the moment."""


def epoch_keeping(work: Work) -> EpochKeeping:
    """Return how an epoch is kept."""
    keeper = current_keeper() if work.phase == "train" else None
    if keeper is None:
        return _Nobody()
    return (_Together if work.instance.count > 1 else _Alone)(work, keeper)


class _Nobody:
    """No one keeps it."""

    def begin(self) -> int:
        return 0

    def most(self, batch: int) -> int:
        return _UNLIMITED

    def keep(self, batch: int) -> None:
        pass


class _Alone:
    """As soon as the keeper wants to, where no weight update is under way."""

    def __init__(self, work: Work, keeper: Keeper) -> None:
        self._work, self._keeper = work, keeper

    def begin(self) -> int:
        begun = self._keeper.begun()
        if begun is None:
            return 0
        values = self._own(begun.values)
        for state in self._work.state:
            state.save(values[: len(state.variables)])
            del values[: len(state.variables)]
        return begun.step

    def most(self, batch: int) -> int:
        update = self._work.update
        return update - batch % update if self._keeper.due() else _UNLIMITED

    def keep(self, batch: int) -> None:
        work = self._work
        at_update = batch % work.update == 0 and batch < work.count.batches
        if at_update and self._keeper.due():
            self._keep_now(batch)

    def _keep_now(self, batch: int) -> None:
        work = self._work
        own = [item.numpy() for state in work.state for item in state.load()]
        step = batch // work.count.replicas
        self._keeper.keep(PartOfEpoch(step, self._all(own)))

    def _all(self, own: list[Array]) -> list[Array]:
        """Return what to keep of the values of this process."""
        return own

    def _own(self, kept: Sequence[Array]) -> list[Array]:
        """Return what this process goes on with."""
        return list(kept)


class _Together(_Alone):
    """Where all processes meet: the first one says, each time, where that is next.

    They cut their loops into pieces of their own, and only one clock can decide.
    """

    _meeting = _UNLIMITED

    def begin(self) -> int:
        step = super().begin()
        if math.isfinite(self._keeper.due_in_s()):
            batch = step * self._work.count.replicas
            self._meeting = batch + max(self._agreed(), self._work.update)
        return step

    def most(self, batch: int) -> int:
        return self._meeting - batch

    def keep(self, batch: int) -> None:
        if batch != self._meeting or batch >= self._work.count.batches:
            return
        ahead = self._agreed()
        if not ahead:
            self._keep_now(batch)
            ahead = max(self._agreed(), self._work.update)
        self._meeting = batch + ahead

    def _all(self, own: list[Array]) -> list[Array]:
        return gather_values(own, self._work.instance)

    def _own(self, kept: Sequence[Array]) -> list[Array]:
        return [values[self._work.instance.index] for values in kept]

    def _agreed(self) -> int:
        """Return the batches until the next meeting; 0 if it is time to keep."""
        own = tf.constant(self._batches_ahead(), tf.int64)
        return int(take_from(0, own, self._work.instance))

    def _batches_ahead(self) -> int:
        """Return what this process would say: as far as time allows."""
        left_s, update = self._keeper.due_in_s(), self._work.update
        if left_s <= 0:
            return 0
        # Before anything is measured the next update is far enough.
        update_s = self._work.program.pieces.batch_s * update or left_s
        return math.ceil(left_s / update_s) * update
