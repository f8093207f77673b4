"""`ipu.utils`: names that scripts look for here; each is defined where it belongs."""

from __future__ import annotations

from ipu_runtime.config import (
    IPUConfig,
    get_ipu_config,
    reset_ipu_configuration,
    running_on_ipu_model,
)
from ipu_runtime.device_queries import get_num_of_ipus_in_device, reset_ipu_seed
from ipu_runtime.event_reports import (
    extract_all_events,
    extract_all_strings_from_event_trace,
    extract_compile_reports,
    extract_execute_reports,
)
from ipu_runtime.graph_initialization import move_variable_initialization_to_cpu
from ipu_runtime.options_functions import (
    auto_select_ipus,
    configure_ipu_system,
    create_ipu_config,
    select_ipus,
)
from ipu_runtime.options_setters import (
    set_compilation_options,
    set_convolution_options,
    set_floating_point_behaviour_options,
    set_gcl_options,
    set_io_tile_options,
    set_ipu_connection_type,
    set_ipu_model_options,
    set_matmul_options,
    set_norm_options,
    set_optimization_options,
    set_pooling_options,
    set_recomputation_options,
    set_report_options,
    set_serialization_options,
)
from ipu_runtime.plan.config_enums import (
    DeviceConnectionType,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
)
from ipu_runtime.poplar_flags import SyntheticDataCategory, use_synthetic_data_for

__all__ = [
    "DeviceConnectionType",
    "ExecutionProfileType",
    "IPUConfig",
    "MergeRemoteBuffersBehaviour",
    "SchedulingAlgorithm",
    "SelectionOrder",
    "SyntheticDataCategory",
    "auto_select_ipus",
    "configure_ipu_system",
    "create_ipu_config",
    "extract_all_events",
    "extract_all_strings_from_event_trace",
    "extract_compile_reports",
    "extract_execute_reports",
    "get_ipu_config",
    "get_num_of_ipus_in_device",
    "move_variable_initialization_to_cpu",
    "reset_ipu_configuration",
    "reset_ipu_seed",
    "running_on_ipu_model",
    "select_ipus",
    "set_compilation_options",
    "set_convolution_options",
    "set_floating_point_behaviour_options",
    "set_gcl_options",
    "set_io_tile_options",
    "set_ipu_connection_type",
    "set_ipu_model_options",
    "set_matmul_options",
    "set_norm_options",
    "set_optimization_options",
    "set_pooling_options",
    "set_recomputation_options",
    "set_report_options",
    "set_serialization_options",
    "use_synthetic_data_for",
]
