"""Where the program that is being built will run: device, shards and replicas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.plan.rules.count_rules import check_attached
from ipu_runtime.plan.rules.replica_counts import reserved_ipus
from ipu_runtime.system.device_state import device_ordinal
from ipu_runtime.system.emulated_device import device_instance, local_ipus
from ipu_runtime.system.instances import Instance


@dataclass
class Placement:
    """An IPU device, and what programs built for it have used so far."""

    device: str = "/device:IPU:0"
    replicas: int | None = None
    """Replicas that the caller asks for; None means as many as fit."""
    shards: set[int] = field(default_factory=set)
    """IPUs of a replica that something was placed on."""
    joined_instance: Instance | None = None
    """This process among those that it works with; None: as the device is shared."""
    named: bool = True
    """False while nobody has said which device it is."""
    compiling: bool = False
    """Whether a program is being built right now."""
    on_host: bool = False
    """Whether what is being built runs outside of the program."""

    @property
    def ordinal(self) -> int:
        """Number of the device."""
        return device_ordinal(self.device)

    @property
    def instance(self) -> Instance:
        """This process among those whose replicas exchange values."""
        return self.joined_instance or device_instance()

    def replica_count(self) -> int:
        """Return how often the program runs side by side on its device."""
        if self.replicas is not None:
            return self.replicas
        needed = max(self.shards, default=0) + 1
        ipus = local_ipus(self.ordinal)
        raise_for(check_attached(ipus, needed))
        return ipus // reserved_ipus(needed)


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
