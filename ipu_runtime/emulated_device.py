"""The device that a program runs on, from configuration, environment and strategy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING

from ipu_runtime.device_state import current_state
from ipu_runtime.engine.device import Device
from ipu_runtime.engine_options import current_engine_options
from ipu_runtime.plan.hardware import systems
from ipu_runtime.popdist import getNumInstances
from ipu_runtime.poplar_flags import current_flags

if TYPE_CHECKING:
    from ipu_runtime.ipu_strategy import IPUStrategyV1

_system: ContextVar[tuple[str, str]] = ContextVar("system", default=("", ""))
"""Name of the emulated system, and the file that adds to the hardware table."""


@contextmanager
def emulated_system(name: str, hardware_file: str = "") -> Iterator[None]:
    """Emulate a system of the hardware table; otherwise the smallest that is enough."""
    token = _system.set((name, hardware_file))
    try:
        yield
    finally:
        _system.reset(token)


def device_for(strategy: IPUStrategyV1 | None, shard_count: int = 1) -> Device:
    """Return the device as it is configured now, for a model of some IPUs."""
    state = current_state()
    name = strategy.ipu_device if strategy else "/device:IPU:0"
    ipus = max(1, state.ipus(name) // getNumInstances())
    config = dict(state.options.fields)
    tiles = current_flags().ipu_model_tiles
    if tiles and "ipu_model.tiles_per_ipu" not in config:
        config["ipu_model.tiles_per_ipu"] = tiles
    compiler_options = config.get("compilation_poplar_options", {})
    too_large_allowed = compiler_options.get("debug.allowOutOfMemory") == "true"
    system, hardware_file = _system.get()
    device = Device(
        ipus=ipus,
        config=config,
        system=system or _smallest_system(state.ipus(name), config),
        hardware_file=hardware_file,
        check_memory=not (
            too_large_allowed or current_engine_options().allow_out_of_memory
        ),
        seed=device_seed(),
    )
    if strategy is None:
        return device
    replicas = device.replicas(shard_count)
    return replace(device, loss_scale_replicas=strategy.loss_scale(replicas))


def _smallest_system(ipus: int, config: dict[str, object]) -> str:
    version = str(config.get("device_connection.version", "")) or "ipu2"
    fitting = [s for s in systems() if s.ipu.version == version and s.ipus >= ipus]
    return min(fitting, key=lambda s: s.ipus).name if fitting else "M2000"


class _Seed:
    """The seed of everything random on the device."""

    def __init__(self) -> None:
        self.value = 0
        self.lock = threading.Lock()


_seed = _Seed()


def device_seed() -> int:
    """Return the seed of the device."""
    return _seed.value


def set_device_seed(seed: int) -> None:
    """Seed everything random on the device again."""
    with _seed.lock:
        _seed.value = seed
