"""The device that a program runs on, from configuration, environment and strategy."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ipu_runtime.plan.hardware import systems
from ipu_runtime.system.device import Device
from ipu_runtime.system.device_state import current_state, device_ordinal
from ipu_runtime.system.engine_options import current_engine_options
from ipu_runtime.system.instances import Instance, current_instance
from ipu_runtime.system.poplar_flags import current_flags

_system: ContextVar[tuple[str, str, int, bool]] = ContextVar(
    "system", default=("", "", 0, False)
)
"""Name of the emulated system, the file that adds to the hardware table, and hosts."""


class DeviceUser(Protocol):
    """A strategy, as far as its device needs to know it."""

    @property
    def ipu_device(self) -> str:
        """Name of the device."""

    def loss_scale(self, local_replicas: int) -> int:
        """Return the replicas by which losses are divided."""

    @property
    def instance(self) -> Instance:
        """This process among those that train together."""


@contextmanager
def emulated_system(
    name: str, hardware_file: str = "", hosts: int = 0, *, steady: bool = False
) -> Iterator[None]:
    """Emulate a system of the hardware table; otherwise the smallest that is enough.

    Args:
        name: The system.
        hardware_file: What adds to the table.
        hosts: Machines that feed it; 0 for those that it is sold with.
        steady: Whether plans are of a steady state, however few the samples are.
    """
    token = _system.set((name, hardware_file, hosts, steady))
    try:
        yield
    finally:
        _system.reset(token)


def fields_in_force(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that count: those of the IPU model only where it is used."""
    on_model = current_flags().use_ipu_model
    return {
        path: value
        for path, value in fields.items()
        if on_model or not path.startswith("ipu_model.")
    }


def device_for(strategy: DeviceUser | None, shard_count: int = 1) -> Device:
    """Return the device as it is configured now, for a model of some IPUs."""
    state = current_state()
    name = strategy.ipu_device if strategy else "/device:IPU:0"
    ipus = local_ipus(name)
    config = fields_in_force(state.options.fields)
    tiles = current_flags().ipu_model_tiles
    if tiles and "ipu_model.tiles_per_ipu" not in config:
        config["ipu_model.tiles_per_ipu"] = tiles
    compiler_options = config.get("compilation_poplar_options", {})
    too_large_allowed = compiler_options.get("debug.allowOutOfMemory") == "true"
    system, hardware_file, hosts, steady = _system.get()
    device = Device(
        ipus=ipus,
        config=config,
        system=system or _smallest_system(state.ipus(name), config),
        hardware_file=hardware_file,
        hosts=hosts,
        steady=steady,
        check_memory=not (
            too_large_allowed or current_engine_options().allow_out_of_memory
        ),
        seed=_draws.seed,
        identical_replicas=_draws.identical_replicas,
    )
    if strategy is None:
        return device
    replicas = device.replicas(shard_count)
    return replace(
        device,
        loss_scale_replicas=strategy.loss_scale(replicas),
        instance=strategy.instance,
    )


def local_ipus(device: str | int = 0) -> int:
    """Return the IPUs of a device that this process has: its share, if it is shared."""
    return max(1, current_state().ipus(device) // device_instance().count)


def device_instance() -> Instance:
    """Return this process among those that the configuration shares the device with."""
    fields = current_state().options.fields
    shared = fields.get("experimental.multi_replica_distribution.process_count", 0) > 1
    return current_instance() if shared else Instance()


def _smallest_system(ipus: int, config: dict[str, object]) -> str:
    version = str(config.get("device_connection.version", "")) or "ipu2"
    fitting = [s for s in systems() if s.ipu.version == version and s.ipus >= ipus]
    return min(fitting, key=lambda s: s.ipus).name if fitting else "M2000"


@dataclass
class DeviceDraws:
    """What random numbers on the device follow from."""

    seed: int = 0
    resets: int = 0
    """How often the device was seeded: draws begin anew each time."""
    identical_replicas: bool = False
    numbered: int = 0
    """Operations that draw, in all programs since then."""
    lock: threading.Lock = field(default_factory=threading.Lock)


_draws = DeviceDraws()


def device_draws() -> DeviceDraws:
    """Return what random numbers on the device follow from."""
    return _draws


def device_seed() -> int:
    """Return the seed of the device."""
    return _draws.seed


def get_num_of_ipus_in_device(ipu_device: str, device: str = "cpu") -> int:
    """Return the physical IPUs of a TensorFlow device."""
    del device  # There is one host in the emulation.
    return current_state().ipus(ipu_device)


def reset_ipu_seed(
    seed: int,
    device: str = "/device:IPU:0",
    cpu_device: str = "cpu",
    experimental_identical_replicas: bool = False,
) -> None:
    """Seed everything random on the device again: dropout, stochastic rounding."""
    del cpu_device
    device_ordinal(device)
    with _draws.lock:
        _draws.seed = int(seed)
        _draws.resets += 1
        _draws.identical_replicas = experimental_identical_replicas
        _draws.numbered = 0
