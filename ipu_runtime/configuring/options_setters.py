"""The `set_*` functions of SDK 1.4: `ipu.utils.set_..._options`."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, NamedTuple

from ipu_runtime.configuring.options_functions import with_fields
from ipu_runtime.installing.signatures import taking
from ipu_runtime.plan.config.config_enums import DeviceConnectionType
from ipu_runtime.system.ipu_options import IpuOptions
from ipu_runtime.system.without_effect import warn_without_effect

_VERIFIED = (
    "{} is not emulated: data that come and go encrypted and signed need the device; "
    "leave it out."
)


class _Row(NamedTuple):
    """An argument, and the field of the configuration that it sets."""

    argument: str
    path: str
    default: Any = Parameter.empty
    as_field: Callable[[Any], Any] = lambda value: value


def _setter(doc: str, name: str, *rows: _Row) -> Callable[..., IpuOptions]:
    """Return a function that stores its arguments in options, which it returns."""
    kind = Parameter.POSITIONAL_OR_KEYWORD
    parameters = [Parameter(row.argument, kind, default=row.default) for row in rows]
    signature = Signature([Parameter("opts", kind), *parameters])

    def set_fields(opts: IpuOptions, **given: Any) -> IpuOptions:
        return with_fields(
            opts, {row.path: row.as_field(given[row.argument]) for row in rows}
        )

    set_fields.__name__ = set_fields.__qualname__ = name
    set_fields.__doc__ = doc
    return taking(signature)(set_fields)


def _poplar(argument: str, path: str) -> _Row:
    """Return the row of an argument that is a dictionary of Poplar's options."""

    def as_field(options: Any) -> dict[str, str]:
        if options is not None and not isinstance(options, dict):
            raise Exception(f"{path}: a dict of texts is needed, not {options!r}.")
        return dict(options or {})

    return _Row(argument, path, None, as_field)


set_norm_options = _setter(
    "Set how normalisation layers compute their variance.",
    "set_norm_options",
    _Row("use_stable_statistics", "norms.use_stable_statistics", False),
)
set_convolution_options = _setter(
    "Set Poplar options of convolutions.",
    "set_convolution_options",
    _poplar("convolution_options", "convolutions.poplar_options"),
)
set_matmul_options = _setter(
    "Set Poplar options of matrix products.",
    "set_matmul_options",
    _poplar("matmul_options", "matmuls.poplar_options"),
    _Row("clear_pass_type", "matmuls.clear_pass_type", False),
)
set_pooling_options = _setter(
    "Set Poplar options of pooling.",
    "set_pooling_options",
    _poplar("pooling_options", "pooling.poplar_options"),
)
set_gcl_options = _setter(
    "Set Poplar options of collectives.",
    "set_gcl_options",
    _poplar("gcl_options", "gcl_poplar_options"),
)
set_compilation_options = _setter(
    "Set Poplar options of the compiler.",
    "set_compilation_options",
    _poplar("compilation_options", "compilation_poplar_options"),
)
set_floating_point_behaviour_options = _setter(
    "Set what the device does about exceptional numbers.",
    "set_floating_point_behaviour_options",
    _Row("inv", "floating_point_behaviour.inv", True),
    _Row("div0", "floating_point_behaviour.div0", True),
    _Row("oflo", "floating_point_behaviour.oflo", True),
    _Row("esr", "floating_point_behaviour.esr", True, lambda on: "ON" if on else "OFF"),
    _Row("nanoo", "floating_point_behaviour.nanoo", True),
)
set_ipu_model_options = _setter(
    "Set what the IPU Model emulates.",
    "set_ipu_model_options",
    _Row("compile_ipu_code", "ipu_model.compile_ipu_code", True),
    _Row("tiles_per_ipu", "ipu_model.tiles_per_ipu", None, lambda tiles: tiles or 0),
    _Row("ipu_model_version", "ipu_model.version", "ipu2"),
)
set_io_tile_options = _setter(
    "Reserve tiles for input and output.",
    "set_io_tile_options",
    _Row("num_io_tiles", "io_tiles.num_io_tiles"),
    _Row("place_ops_on_io_tiles", "io_tiles.place_ops_on_io_tiles", None, bool),
)
set_serialization_options = _setter(
    "Set where compiled programs are written.",
    "set_serialization_options",
    _Row("output_folder", "serialization_output_folder", ""),
)
set_ipu_connection_type = _setter(
    "Set when the device is attached.",
    "set_ipu_connection_type",
    _Row(
        "connection_type",
        "device_connection.type",
        None,
        lambda kind: (kind or DeviceConnectionType.ALWAYS).name,
    ),
    _Row("ipu_version", "device_connection.version", None, lambda name: name or ""),
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


def set_report_options(
    opts: IpuOptions,
    report_options: Any = None,
    graph_options: Any = None,
    execution_options: Any = None,
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
