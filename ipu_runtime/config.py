"""`ipu.config`: the configuration of the IPU system, and applying it."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from ipu_runtime.configuring.config_attributes import (
    AttributeMetadata,
    ConfigCategory,
    enum_default,
    logger,
)
from ipu_runtime.configuring.config_checks import check_config, ipus_of_devices
from ipu_runtime.engine.watch.interception import (
    CONFIGURATION,
    changed_settings,
    is_intercepted,
    notice,
)
from ipu_runtime.plan.config.config_enums import (
    ENUM_OF_FIELD,
    DeviceConnectionType,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from ipu_runtime.plan.config.config_fields import IPU_CONFIG_FIELD, IPU_CONFIG_FIELDS
from ipu_runtime.system.device_state import apply_options, current_state, reset_state
from ipu_runtime.system.ipu_options import (
    IpuOptions,
    auto_selected,
    explicitly_selected,
)

__all__ = [
    "AttributeMetadata",
    "DeviceConnectionType",
    "ExecutionProfileType",
    "IPUConfig",
    "MergeRemoteBuffersBehaviour",
    "SchedulingAlgorithm",
    "SelectionOrder",
    "StochasticRoundingBehaviour",
    "changed_fields",
    "config_from_fields",
    "configure_ipu_system",
    "get_ipu_config",
    "reset_ipu_configuration",
    "running_on_ipu_model",
]


class IPUConfig(ConfigCategory):
    """Settings of an IPU system; unknown names and wrong types are refused."""

    def __init__(self) -> None:
        values = {field.path: enum_default(field) for field in IPU_CONFIG_FIELDS}
        super().__init__("", values)

    def configure_ipu_system(self, device: str = "cpu") -> None:
        """Apply this configuration to the system."""
        configure_ipu_system(self, device)

    def to_dict(self) -> dict[str, Any]:
        """Return all values by dotted name, enumerations as whole numbers."""
        return {path: _as_plain(value) for path, value in self.items()}

    def from_dict(self, dct: Mapping[str, Any]) -> None:
        """Take over the values of a dictionary made by `to_dict`."""
        for path, old in list(self.items()):
            if path not in dct:
                logger.warning(
                    "%s is not in the given configuration: its value %r is kept",
                    path,
                    old,
                )
                continue
            value = dct[path]
            if path in ENUM_OF_FIELD and type(value) is int:
                value = ENUM_OF_FIELD[path](value)
            if value != old:
                _set(self, path, value)

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return json.dumps(self.to_dict())

    def from_json(self, json_cfg: str) -> None:
        """Take over the values of a text made by `to_json`."""
        self.from_dict(json.loads(json_cfg))


def running_on_ipu_model() -> bool:
    """Tell whether TF_POPLAR_FLAGS asks for the IPU Model."""
    flags = os.getenv("TF_POPLAR_FLAGS") or ""
    return "--use_ipu_model" in flags


def configure_ipu_system(
    config: IPUConfig | IpuOptions,
    device: str = "cpu",
    reset_configuration: bool = True,
) -> None:
    """Apply a configuration; a different earlier one is reset first."""
    del device  # There is one host in the emulation.
    options = _intercepted(_options_of(config))
    ipus = ipus_of_devices(options, on_ipu_model=running_on_ipu_model())
    state = current_state()
    if state.configured:
        if state.options == options:
            return
        if reset_configuration:
            logger.warning(
                "Resetting existing IPU configuration before applying new configuration"
            )
            reset_ipu_configuration()
    apply_options(options, ipus)


def reset_ipu_configuration() -> None:
    """Forget the devices and what was compiled for them."""
    if current_state().configured:
        reset_state()


def get_ipu_config(session: Any = None) -> list[IpuOptions]:
    """Return the applied options, one per executor."""
    del session  # Graph sessions share the process's devices.
    state = current_state()
    if not state.configured:
        raise RuntimeError("No IPU devices configured.")
    return [copy.deepcopy(state.options)]


def changed_fields(config: IPUConfig) -> dict[str, Any]:
    """Return what differs from the defaults as plain values, enumerations by name."""
    changed = {}
    for path, value in config.items():
        plain = value.name if isinstance(value, Enum) else value
        plain = list(plain) if isinstance(plain, tuple) else plain
        if plain != IPU_CONFIG_FIELD[path].default:
            changed[path] = copy.deepcopy(plain)
    return changed


def config_from_fields(fields: Mapping[str, Any]) -> IPUConfig:
    """Return a configuration with the given plain values, the opposite of the above."""
    config = IPUConfig()
    for path, value in fields.items():
        enum = ENUM_OF_FIELD.get(path)
        _set(config, path, enum[value] if enum else copy.deepcopy(value))
    return config


def _set(config: IPUConfig, path: str, value: Any) -> None:
    *groups, name = path.split(".")
    category: Any = config
    for group in groups:
        category = getattr(category, group)
    setattr(category, name, value)


def _as_plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return copy.deepcopy(value)


def _intercepted(options: IpuOptions) -> IpuOptions:
    """Return the options as somebody outside of the script wants them."""
    if not is_intercepted():
        return options
    notice(CONFIGURATION)
    counts = [device.auto_count for device in options.device_config]
    chosen = counts[0] if len(counts) == 1 else counts
    selection = {"auto_select_ipus": chosen} if all(counts) and counts else {}
    fields = options.fields | selection
    now = {
        f"ipu.{field.path}": fields.get(field.path, field.default)
        for field in IPU_CONFIG_FIELDS
    }
    changes = changed_settings(CONFIGURATION, False, now)
    if not changes:
        return options
    fields |= {name.removeprefix("ipu."): value for name, value in changes.items()}
    checked = _options_of(config_from_fields(fields))
    devices = checked.device_config or options.device_config
    return replace(options, device_config=devices, fields=checked.fields)


def _options_of(config: IPUConfig | IpuOptions) -> IpuOptions:
    if isinstance(config, IpuOptions):
        return copy.deepcopy(config)
    if not isinstance(config, IPUConfig):
        raise TypeError(
            f"config must be an IPUConfig, but it is a {type(config).__name__}."
        )
    check_config(config, on_ipu_model=running_on_ipu_model())
    devices = auto_selected(config.auto_select_ipus)
    devices = devices or explicitly_selected(config.select_ipus)
    return IpuOptions(devices, changed_fields(config))
