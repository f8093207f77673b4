"""Where the program that is being built will run: device, shards and replicas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from ipu_runtime.device_state import current_state, device_ordinal


@dataclass
class Placement:
    """An IPU device, and what programs built for it have used so far."""

    device: str = "/device:IPU:0"
    replicas: int | None = None
    """Replicas that the caller asks for; None means as many as fit."""
    shards: set[int] = field(default_factory=set)
    """IPUs of a replica that something was placed on."""
    compiling: bool = False
    """Whether a program is being built right now."""
    on_host: bool = False
    """Whether what is being built runs outside of the program."""

    @property
    def ordinal(self) -> int:
        """Number of the device."""
        return device_ordinal(self.device)

    def replica_count(self) -> int:
        """Return how often the program runs side by side on its device."""
        if self.replicas is not None:
            return self.replicas
        needed = max(self.shards, default=0) + 1
        reserved = 1 << (needed - 1).bit_length()
        return max(1, current_state().ipus(self.ordinal) // reserved)


_placement: ContextVar[Placement | None] = ContextVar("placement", default=None)


def current_placement() -> Placement | None:
    """Return the device in whose scope code is being built, if any."""
    return _placement.get()


@contextmanager
def placed_on(placement: Placement) -> Iterator[Placement]:
    """Build what is inside for a device."""
    token = _placement.set(placement)
    try:
        yield placement
    finally:
        _placement.reset(token)
