"""`ipu.utils`: names that scripts look for here; each is defined where it belongs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ipu_runtime.config import (
    IPUConfig,
    get_ipu_config,
    reset_ipu_configuration,
    running_on_ipu_model,
)
from ipu_runtime.configuring.options_functions import (
    auto_select_ipus,
    configure_ipu_system,
    create_ipu_config,
    select_ipus,
)
from ipu_runtime.configuring.options_setters import (
    VerificationOptions,
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
    set_transfer_options,
    set_verification_options,
)
from ipu_runtime.frameworks.tensorflow_variables import (
    move_variable_initialization_to_cpu,
)
from ipu_runtime.plan.config.config_enums import (
    DeviceConnectionType,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
)
from ipu_runtime.reports.event_trace import (
    extract_all_events,
    extract_all_strings_from_event_trace,
    extract_all_types_from_event_trace,
    extract_compile_reports,
    extract_execute_reports,
    extract_poplar_serialized_graphs,
)
from ipu_runtime.system.emulated_device import get_num_of_ipus_in_device, reset_ipu_seed
from ipu_runtime.system.poplar_flags import (
    SyntheticDataCategory,
    use_synthetic_data_for,
)

__all__ = [
    "DeviceConnectionType",
    "ExecutionProfileType",
    "IPUConfig",
    "MergeRemoteBuffersBehaviour",
    "SchedulingAlgorithm",
    "SelectionOrder",
    "SyntheticDataCategory",
    "VerificationOptions",
    "auto_select_ipus",
    "configure_ipu_system",
    "create_ipu_config",
    "extract_all_events",
    "extract_all_strings_from_event_trace",
    "extract_all_types_from_event_trace",
    "extract_compile_reports",
    "extract_execute_reports",
    "extract_poplar_serialized_graphs",
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
    "set_transfer_options",
    "set_verification_options",
    "use_synthetic_data_for",
]

_IN_EXTRACTOR = ("export_dataset_to_file", "export_inputs_to_file")


def __getattr__(name: str) -> Any:
    # These need TensorFlow, the others do not.
    if name in _IN_EXTRACTOR:
        return getattr(import_module("ipu_runtime.dataset_extractor"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
