"""Configuration by functions, as scripts of SDK 1.4 do it: `ipu.utils.create_...`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ipu_runtime import config as ipu_config
from ipu_runtime.plan.config.config_enums import (
    ExecutionProfileType,
    SelectionOrder,
)
from ipu_runtime.plan.config.config_fields import IPU_CONFIG_FIELD
from ipu_runtime.system.ipu_options import (
    IpuOptions,
    auto_selected,
    explicitly_selected,
)


def create_ipu_config(
    profiling: bool = False,
    enable_ipu_events: bool = False,
    use_poplar_text_report: bool = False,
    use_poplar_cbor_report: bool = False,
    profile_execution: bool | ExecutionProfileType | None = None,
    enable_poplar_serialized_graph: bool = False,
    report_every_nth_execution: int = 0,
    max_report_size: int = 0x10000000,
    report_directory: str = "",
    scheduler_selection: str = "",
    always_rearrange_copies_on_the_host: bool = False,
    merge_infeed_io_copies: bool = False,
    disable_graph_convolution_caching: bool = False,
    disable_graph_outlining: bool = False,
    retain_control_dependencies: bool = False,
    max_cross_replica_sum_buffer_size: int = 0,
    max_inter_ipu_copies_buffer_size: int = 0,
    max_scheduler_lookahead_depth: int = 5,
    max_scheduler_search_space_size: int = 64,
    prefetch_data_streams: bool = True,
    selection_order: SelectionOrder | None = None,
    enable_experimental_remote_buffer_embedding: bool = False,
) -> IpuOptions:
    """Return options for the `set_*` functions; report formats have no effect."""
    if profiling and enable_ipu_events:
        raise Exception(
            "`profiling` and `enable_ipu_events` are mutually exclusive: set one."
        )
    if retain_control_dependencies:
        raise Exception("`retain_control_dependencies` is no longer supported.")
    profile = _execution_profile(profile_execution)
    if profile is not ExecutionProfileType.NO_PROFILE and not profiling:
        raise Exception("`profile_execution` needs `profiling` to be set as well.")
    options = IpuOptions(
        creator_id="create_ipu_config",
        event_trace=profiling or enable_ipu_events,
        profile_execution=profile is not ExecutionProfileType.NO_PROFILE,
    )
    order = selection_order if selection_order is not None else SelectionOrder.AUTO
    return with_fields(
        options,
        {
            "experimental.always_rearrange_copies_on_the_host": (
                always_rearrange_copies_on_the_host
            ),
            "experimental.enable_remote_buffer_embedding": (
                enable_experimental_remote_buffer_embedding
            ),
            "optimizations.merge_infeed_io_copies": merge_infeed_io_copies,
            "optimizations.enable_graph_outlining": not disable_graph_outlining,
            "optimizations.maximum_cross_replica_sum_buffer_size": (
                max_cross_replica_sum_buffer_size
            ),
            "optimizations.maximum_inter_ipu_copies_buffer_size": (
                max_inter_ipu_copies_buffer_size
            ),
            "scheduling.maximum_scheduler_lookahead_depth": (
                max_scheduler_lookahead_depth
            ),
            "scheduling.maximum_scheduler_search_space_size": (
                max_scheduler_search_space_size
            ),
            "optimizations.prefetch_data_streams": prefetch_data_streams,
            "selection_order": order.name,
        },
    )


def auto_select_ipus(opts: IpuOptions, num_ipus: int | Sequence[int]) -> IpuOptions:
    """Give every device a number of IPUs; changes and returns the options."""
    return _select(opts, auto_selected(_counts(num_ipus, "num_ipus")))


def select_ipus(opts: IpuOptions, indices: int | Sequence[int]) -> IpuOptions:
    """Give every device a device number; changes and returns the options."""
    return _select(opts, explicitly_selected(_counts(indices, "indices")))


def configure_ipu_system(
    config: IpuOptions | ipu_config.IPUConfig,
    device: str = "cpu",
    reset_configuration: bool = True,
) -> None:
    """Apply options of either generation of the API."""
    if not isinstance(config, (IpuOptions, ipu_config.IPUConfig)):
        raise Exception(
            "`config` must be made with create_ipu_config or be an IPUConfig, but it "
            f"is a {type(config).__name__}."
        )
    ipu_config.configure_ipu_system(config, device, reset_configuration)


def _execution_profile(
    value: bool | ExecutionProfileType | None,
) -> ExecutionProfileType:
    if value is None or value is False:
        return ExecutionProfileType.NO_PROFILE
    if value is True:
        return ExecutionProfileType.DEVICE_PROFILE
    if isinstance(value, ExecutionProfileType):
        return value
    raise Exception(
        "`profile_execution` must be a bool or an ExecutionProfileType, but it is "
        f"{value!r}."
    )


def _counts(value: Any, name: str) -> list[int]:
    if isinstance(value, int):
        return [value]
    if isinstance(value, (list, tuple)):
        return list(value)
    raise Exception(f"`{name}` must be an int, a list or a tuple, but it is {value!r}.")


def _select(opts: IpuOptions, devices: list[Any]) -> IpuOptions:
    if opts.device_config:
        raise Exception("IPU devices have already been selected on these options.")
    opts.device_config = devices
    return opts


def with_fields(opts: IpuOptions, values: Mapping[str, Any]) -> IpuOptions:
    """Store what differs from the default, and check it on the way."""
    for path, value in values.items():
        if path not in IPU_CONFIG_FIELD:
            raise Exception(f"{path} is not a field of the IPU configuration.")
        ipu_config.config_from_fields({path: value})
        if value == IPU_CONFIG_FIELD[path].default:
            opts.fields.pop(path, None)
        else:
            opts.fields[path] = value
    return opts
