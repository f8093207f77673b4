"""What is checked when a configuration is applied, in the order of the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipu_runtime.plan.config.config_enums import DeviceConnectionType
from ipu_runtime.plan.config.config_fields import IPU_CONFIG_FIELDS
from ipu_runtime.plan.config.field import Kind
from ipu_runtime.system.instances import current_instance
from ipu_runtime.system.ipu_options import IpuOptions

if TYPE_CHECKING:
    from ipu_runtime.config import IPUConfig

EMULATED_IPUS, _LARGEST_SYSTEM = 256, "Pod256"
_NUMBERED_IPUS = 16
"""IPUs whose combinations have device numbers, as on a Pod16."""


def check_config(config: IPUConfig, *, on_ipu_model: bool) -> None:
    """Raise what the real runtime raises; whole numbers become lists in place."""
    _check_selection(config, on_ipu_model)
    _check_tiles(config)
    _check_connection(config, on_ipu_model)
    _check_distribution(config, on_ipu_model)
    _check_options(config)


def ipus_of_devices(options: IpuOptions, *, on_ipu_model: bool) -> tuple[int, ...]:
    """Return the IPUs of every TensorFlow device, or raise as missing hardware does."""
    if not options.device_config:
        return (1,)
    attached = options.fields.get("device_connection.type", "ALWAYS") == "ALWAYS"
    counts = []
    for device in options.device_config:
        count = (
            _ipus_of_number(device.cfg_index) if device.explicit else device.auto_count
        )
        if attached and not _exists(count, on_ipu_model):
            _refuse_device(count)
        counts.append(count)
    return tuple(counts)


def _check_selection(config: Any, on_ipu_model: bool) -> None:
    if config.auto_select_ipus and config.select_ipus:
        raise Exception(
            "Only one of auto_select_ipus and select_ipus may be set, but they are "
            f"{config.auto_select_ipus!r} and {config.select_ipus!r}."
        )
    for name in ("auto_select_ipus", "select_ipus"):
        if type(getattr(config, name)) is int:
            setattr(config, name, [getattr(config, name)])
    selected = config.select_ipus
    if len(set(selected)) != len(selected):
        raise ValueError(f"select_ipus has a device number twice: {selected!r}.")
    if selected and on_ipu_model:
        raise Exception(
            "select_ipus cannot be used on the IPU Model: use auto_select_ipus."
        )


def _check_tiles(config: Any) -> None:
    group_size = config.norms.experimental.distributed_batch_norm_replica_group_size
    if config.io_tiles.num_io_tiles > 0 and group_size > 1:
        raise ValueError(
            f"io_tiles.num_io_tiles ({config.io_tiles.num_io_tiles}) cannot be used "
            "together with norms.experimental.distributed_batch_norm_replica_group_size"
            f" ({group_size}): set one of them back to its default."
        )
    if config.io_tiles.place_ops_on_io_tiles and config.io_tiles.num_io_tiles == 0:
        raise ValueError(
            "io_tiles.place_ops_on_io_tiles needs I/O tiles: set "
            "io_tiles.num_io_tiles above 0."
        )


def _check_connection(config: Any, on_ipu_model: bool) -> None:
    connection = config.device_connection
    unattached = (DeviceConnectionType.PRE_COMPILE, DeviceConnectionType.NEVER)
    if connection.type in unattached and connection.version == "":
        raise ValueError(
            f"device_connection.type {connection.type.name} needs "
            "device_connection.version: 'ipu1', 'ipu2' or 'ipu21'."
        )
    if config.ipu_model.version == "" and on_ipu_model:
        raise ValueError("ipu_model.version must be 'ipu1' or 'ipu2' on the IPU Model.")


def _check_distribution(config: Any, on_ipu_model: bool) -> None:
    distribution = config.experimental.multi_replica_distribution
    count, index = distribution.process_count, distribution.process_index
    if count > 0 and on_ipu_model:
        raise Exception(
            "experimental.multi_replica_distribution.process_count cannot be used on "
            "the IPU Model."
        )
    if count and not 0 <= index < count:
        raise ValueError(
            "experimental.multi_replica_distribution.process_index must be in "
            f"[0, {count}), but it is {index}."
        )
    instances = current_instance().count
    if count > 1 and count != instances:
        raise ValueError(
            f"experimental.multi_replica_distribution.process_count is {count}, but "
            f"this is one of {instances} instance(s): start the script with poprun "
            f"--num-instances {count}."
        )
    group_size = config.norms.experimental.distributed_batch_norm_replica_group_size
    if group_size < 1:
        raise ValueError(
            "norms.experimental.distributed_batch_norm_replica_group_size must be at "
            f"least 1, but it is {group_size}."
        )


def _check_options(config: Any) -> None:
    """The device takes texts only, and refuses versions that it does not know."""
    values = dict(config.items())
    for field in IPU_CONFIG_FIELDS:
        value = values[field.path]
        if field.kind is Kind.OPTIONS:
            for key, option in value.items():
                if not isinstance(key, str) or not isinstance(option, str):
                    raise TypeError(
                        f"{field.path} must have texts as keys and values, but it has "
                        f"{key!r}: {option!r}."
                    )
        if field.path.endswith(".version") and value not in (*field.choices, ""):
            raise ValueError(
                f"{field.path} must be one of {list(field.choices)}, not {value!r}."
            )


def _exists(count: int, on_ipu_model: bool) -> bool:
    if count < 1:
        return False
    return on_ipu_model or (count <= EMULATED_IPUS and count & (count - 1) == 0)


def _ipus_of_number(number: int) -> int:
    """Numbers count single IPUs first, then pairs, then fours, as gc-info does."""
    first, size = 0, 1
    while size <= _NUMBERED_IPUS:
        if number < first + _NUMBERED_IPUS // size:
            return size if number >= 0 else 0
        first += _NUMBERED_IPUS // size
        size *= 2
    return 0


def _refuse_device(count: int) -> None:
    # Late, because the configuration is used where TensorFlow must not be loaded.
    from ipu_runtime.engine.describe.refusal import raise_for
    from ipu_runtime.plan.rules.count_rules import check_device

    raise_for(check_device(count, _LARGEST_SYSTEM, EMULATED_IPUS))
