"""The applied form of a configuration, as the device and older scripts see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class DeviceConfig:
    """One TensorFlow device: a number of IPUs, or a device number."""

    auto_count: int = 0
    """IPUs to choose automatically; 0 when `cfg_index` says which."""
    cfg_index: int = 0
    """Device number as gc-info lists it."""
    explicit: bool = False
    """Whether `cfg_index` counts."""


@dataclass
class IpuOptions:
    """Devices and settings that are handed to the device."""

    device_config: list[DeviceConfig] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    """IPUConfig fields that differ from their default, by dotted path."""
    creator_id: str = "IPUConfig"
    """`IPUConfig`, or `create_ipu_config` for the function-style configuration."""
    event_trace: bool = False
    """Whether events are recorded for `ipu_event_trace` (older API)."""
    profile_execution: bool = False
    """Whether execution events carry a profile (older API)."""


def auto_selected(counts: Iterable[int]) -> list[DeviceConfig]:
    """Return one device per number of IPUs."""
    return [DeviceConfig(auto_count=count) for count in counts]


def explicitly_selected(numbers: Iterable[int]) -> list[DeviceConfig]:
    """Return one device per device number."""
    return [DeviceConfig(cfg_index=number, explicit=True) for number in numbers]
