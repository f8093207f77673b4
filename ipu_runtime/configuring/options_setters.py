"""The `set_*` functions of SDK 1.4: `ipu.utils.set_..._options`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu_runtime.configuring.options_functions import with_fields
from ipu_runtime.plan.config.config_enums import DeviceConnectionType
from ipu_runtime.system.ipu_options import IpuOptions
from ipu_runtime.system.without_effect import warn_without_effect

_VERIFIED = (
    "{} is not emulated: data that come and go encrypted and signed need the device; "
    "leave it out."
)


def set_optimization_options(
    opts: IpuOptions,
    combine_embedding_lookups: bool = False,
    combine_matmuls: bool = False,
    max_cross_replica_sum_buffer_size: int = 0,
    max_reduce_scatter_buffer_size: int = 0,
    max_inter_ipu_copies_buffer_size: int = 0,
    max_send_recv_cluster_size: int = 0,
    gather_simplifier: bool = True,
    **options: Any,
) -> IpuOptions:
    """Set fields of `optimizations`; later SDKs have more, by their names there."""
    fields = {
        "combine_embedding_lookups": combine_embedding_lookups,
        "combine_matmuls": combine_matmuls,
        "maximum_cross_replica_sum_buffer_size": max_cross_replica_sum_buffer_size,
        "maximum_reduce_scatter_buffer_size": max_reduce_scatter_buffer_size,
        "maximum_inter_ipu_copies_buffer_size": max_inter_ipu_copies_buffer_size,
        "maximum_send_recv_cluster_size": max_send_recv_cluster_size,
        "enable_gather_simplifier": gather_simplifier,
        **options,
    }
    if "fast_math" in fields:
        fields["math.fast"] = fields.pop("fast_math")
    return with_fields(
        opts, {f"optimizations.{name}": value for name, value in fields.items()}
    )


def set_norm_options(opts: IpuOptions, use_stable_statistics: bool = False) -> Any:
    """Set how normalisation layers compute their variance."""
    return with_fields(opts, {"norms.use_stable_statistics": use_stable_statistics})


def set_convolution_options(
    opts: IpuOptions, convolution_options: Mapping[str, str] | None = None
) -> IpuOptions:
    """Set Poplar options of convolutions."""
    return _with_options(opts, "convolutions.poplar_options", convolution_options)


def set_matmul_options(
    opts: IpuOptions,
    matmul_options: Mapping[str, str] | None = None,
    clear_pass_type: bool = False,
) -> IpuOptions:
    """Set Poplar options of matrix products."""
    with_fields(opts, {"matmuls.clear_pass_type": clear_pass_type})
    return _with_options(opts, "matmuls.poplar_options", matmul_options)


def set_pooling_options(
    opts: IpuOptions, pooling_options: Mapping[str, str] | None = None
) -> IpuOptions:
    """Set Poplar options of pooling."""
    return _with_options(opts, "pooling.poplar_options", pooling_options)


def set_gcl_options(
    opts: IpuOptions, gcl_options: Mapping[str, str] | None = None
) -> IpuOptions:
    """Set Poplar options of collectives."""
    return _with_options(opts, "gcl_poplar_options", gcl_options)


def set_compilation_options(
    opts: IpuOptions, compilation_options: Mapping[str, str] | None = None
) -> IpuOptions:
    """Set Poplar options of the compiler."""
    return _with_options(opts, "compilation_poplar_options", compilation_options)


def set_report_options(
    opts: IpuOptions,
    report_options: Mapping[str, str] | None = None,
    graph_options: Mapping[str, str] | None = None,
    execution_options: Mapping[str, str] | None = None,
) -> IpuOptions:
    """Accept options of Poplar's own report; the emulator writes its own."""
    del report_options, graph_options, execution_options
    return opts


def set_recomputation_options(
    opts: IpuOptions,
    allow_recompute: bool = True,
    allow_stateful_recompute: bool | None = None,
) -> IpuOptions:
    """Set whether activations may be computed again."""
    warn_without_effect(
        "set_recomputation_options",
        allow_stateful_recompute=(allow_stateful_recompute, None),
    )
    return with_fields(opts, {"allow_recompute": allow_recompute})


def set_floating_point_behaviour_options(
    opts: IpuOptions,
    inv: bool = True,
    div0: bool = True,
    oflo: bool = True,
    esr: bool = True,
    nanoo: bool = True,
) -> IpuOptions:
    """Set what the device does about exceptional numbers."""
    group = "floating_point_behaviour"
    return with_fields(
        opts,
        {
            f"{group}.inv": inv,
            f"{group}.div0": div0,
            f"{group}.oflo": oflo,
            f"{group}.esr": "ON" if esr else "OFF",
            f"{group}.nanoo": nanoo,
        },
    )


def set_ipu_model_options(
    opts: IpuOptions,
    compile_ipu_code: bool = True,
    tiles_per_ipu: int | None = None,
    ipu_model_version: str = "ipu2",
) -> IpuOptions:
    """Set what the IPU Model emulates."""
    return with_fields(
        opts,
        {
            "ipu_model.compile_ipu_code": compile_ipu_code,
            "ipu_model.tiles_per_ipu": tiles_per_ipu or 0,
            "ipu_model.version": ipu_model_version,
        },
    )


def set_io_tile_options(
    opts: IpuOptions, num_io_tiles: int, place_ops_on_io_tiles: bool | None = None
) -> IpuOptions:
    """Reserve tiles for input and output."""
    return with_fields(
        opts,
        {
            "io_tiles.num_io_tiles": num_io_tiles,
            "io_tiles.place_ops_on_io_tiles": bool(place_ops_on_io_tiles),
        },
    )


def set_serialization_options(opts: IpuOptions, output_folder: str = "") -> IpuOptions:
    """Set where compiled programs are written."""
    return with_fields(opts, {"serialization_output_folder": output_folder})


def set_ipu_connection_type(
    opts: IpuOptions,
    connection_type: DeviceConnectionType | None = None,
    ipu_version: str | None = None,
) -> IpuOptions:
    """Set when the device is attached."""
    kind = connection_type or DeviceConnectionType.ALWAYS
    return with_fields(
        opts,
        {
            "device_connection.type": kind.name,
            "device_connection.version": ipu_version or "",
        },
    )


def _with_options(
    opts: IpuOptions, path: str, options: Mapping[str, str] | None
) -> IpuOptions:
    if options is not None and not isinstance(options, dict):
        raise Exception(f"{path}: a dict of texts is needed, not {options!r}.")
    return with_fields(opts, {path: dict(options or {})})


def set_transfer_options(
    opts: IpuOptions, use_verified_transfers: bool = False
) -> IpuOptions:
    """Return the options; transfers cannot be verified here."""
    if use_verified_transfers:
        raise NotImplementedError(_VERIFIED.format("use_verified_transfers"))
    return opts


def set_verification_options(opts: IpuOptions, verification_options: Any) -> IpuOptions:
    """Raise: transfers cannot be verified here."""
    raise NotImplementedError(_VERIFIED.format("set_verification_options"))


class VerificationOptions:
    """How transfers are verified; it is not emulated."""

    def __init__(self) -> None:
        raise NotImplementedError(_VERIFIED.format("VerificationOptions"))
