"""Which IPU devices are configured in this process: the one place that knows."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from ipu_runtime.system.ipu_options import IpuOptions


@dataclass(frozen=True)
class DeviceState:
    """The TensorFlow devices of the emulated system."""

    ipus_of_device: tuple[int, ...] = (1,)
    """IPUs of `/device:IPU:0`, `/device:IPU:1`, ..."""
    options: IpuOptions = field(default_factory=IpuOptions)
    generation: int = 0
    """Grows with every change; programs compiled for another one are void."""

    @property
    def configured(self) -> bool:
        """Whether a configuration with an IPU selection was applied."""
        return bool(self.options.device_config)

    def ipus(self, device: str | int = 0) -> int:
        """Return the IPUs of a device, named by ordinal or as `/device:IPU:0`."""
        ordinal = device if isinstance(device, int) else device_ordinal(device)
        if not 0 <= ordinal < len(self.ipus_of_device):
            raise ValueError(
                f"There is no device /device:IPU:{ordinal}: "
                f"{len(self.ipus_of_device)} device(s) are configured."
            )
        return self.ipus_of_device[ordinal]


_lock = threading.Lock()
_state = DeviceState()


def current_state() -> DeviceState:
    """Return the configured devices; one device with one IPU if there are none."""
    return _state


def apply_options(options: IpuOptions, ipus_of_device: tuple[int, ...]) -> DeviceState:
    """Make a configuration the current one."""
    global _state
    with _lock:
        _state = DeviceState(ipus_of_device, options, _state.generation + 1)
        return _state


def reset_state() -> None:
    """Forget the configuration; compiled programs become void."""
    global _state
    with _lock:
        _state = DeviceState(generation=_state.generation + 1)


def device_ordinal(device: str) -> int:
    """Return 1 for `/device:IPU:1`, also with a job and task in front."""
    head, _, ordinal = device.rpartition(":")
    if not head.upper().endswith("IPU") or not ordinal.isdecimal():
        raise ValueError(
            f"{device!r} is not an IPU device; a valid name is '/device:IPU:0'."
        )
    return int(ordinal)
