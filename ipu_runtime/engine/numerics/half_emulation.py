"""Whether float16 is emulated now, and which random numbers come next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.numerics.half_settings import HalfSettings

_PLACE_STRIDE = 1_000_003
_SEED_STRIDE = 104_729
_UPDATE, _ACCUMULATION = -1, -2
"""Places of what belongs to no layer call."""


class Draws:
    """Random bits by seed, micro-batch and place, so that schedules do not matter."""

    def __init__(self, seed: int, replicas: int = 1) -> None:
        self._seed = seed
        self._replicas = replicas
        self._counter: Any = None
        self._place = 0
        self._drawn = 0

    @property
    def updating(self) -> bool:
        """Whether draws are for a weight update, which all replicas do alike."""
        return self._place == _UPDATE

    def enter(self, counter: Any) -> None:
        """Draw for a micro-batch from here on.

        Args:
            counter: number of the micro-batch over all updates and replicas.
        """
        self._counter = tf.dtypes.cast(counter, tf.int64)
        self._place, self._drawn = 0, 0

    def at(self, place: int) -> None:
        """Draw for the layer call of that number from here on."""
        if place != self._place:
            self._place, self._drawn = place, 0

    def enter_accumulation(self, counter: Any) -> None:
        """Draw for the sums of gradients from here on."""
        self._counter = tf.dtypes.cast(counter, tf.int64)
        self.at(_ACCUMULATION)

    def enter_update(self, updates: Any) -> None:
        """Draw for a weight update from here on."""
        self._counter = tf.dtypes.cast(updates, tf.int64)
        self.at(_UPDATE)

    def key(self, identical_replicas: bool) -> Any:
        """Return the key of the next draw; outside of models a number alone."""
        self._drawn += 1
        first = self._seed * _SEED_STRIDE + self._place * _PLACE_STRIDE + self._drawn
        first %= 2**31 - 1
        if self._counter is None:
            return first
        identical = identical_replicas and not self.updating
        counter = self._counter // self._replicas if identical else self._counter
        return tf.stack([tf.constant(first, tf.int64), counter])


class Emulation:
    """How float16 results are made now."""

    def __init__(self, settings: HalfSettings, draws: Draws) -> None:
        self.settings = settings
        self.draws = draws

    @property
    def stochastic(self) -> bool:
        """Whether what is computed now is rounded at random."""
        settings = self.settings
        return (
            settings.stochastic_updates if self.draws.updating else settings.stochastic
        )

    def key(self) -> Any:
        """Return the key of the next draw."""
        return self.draws.key(self.settings.identical_replicas)


_current: ContextVar[Emulation | None] = ContextVar("half", default=None)


def current_emulation() -> Emulation | None:
    """Return how float16 is emulated here; None if it is not."""
    return _current.get()


@contextmanager
def emulating(emulation: Emulation | None) -> Iterator[None]:
    """Make float16 results so inside; the operations must be replaced as well."""
    token = _current.set(emulation)
    try:
        yield
    finally:
        _current.reset(token)
