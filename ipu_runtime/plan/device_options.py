"""The IPU configuration as the planner uses it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from ipu_runtime.plan.costs.host_io import StreamOptions
from ipu_runtime.plan.costs.op_costs import Costing
from ipu_runtime.plan.hardware import HardwareTable, IpuType, System
from ipu_runtime.plan.problem import Problem

_PARTIALS = ("half", "float")
_SELECTION_ORDERS = ("AUTO", "ZIGZAG", "SNAKE", "HOOF")


class DeviceOptions(NamedTuple):
    """The configuration as the planner uses it."""

    ipu: IpuType
    """Of the system, with the IPU Model's changes."""
    io_tiles: int
    io_proportion: float
    infeed_on_io_tiles: bool
    costing: Costing
    stream: StreamOptions
    rearranged_on_host: bool
    recompute: bool
    selection_order: str
    outlining: bool
    sum_buffer_bytes: int


def read_config(
    config: Mapping[str, Any],
    system: System,
    table: HardwareTable,
    half: bool,
    training: bool,
) -> tuple[DeviceOptions, tuple[Problem, ...]]:
    """Read the fields that act; what cannot be read is a problem."""
    frozen = tuple(sorted((name, _frozen(value)) for name, value in config.items()))
    return _read(frozen, system, table, half, training)


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(sorted((str(key), str(item)) for key, item in value.items()))
    return tuple(value) if isinstance(value, list) else value


@functools.lru_cache(maxsize=512)
def _read(
    frozen: tuple[tuple[str, Any], ...],
    system: System,
    table: HardwareTable,
    half: bool,
    training: bool,
) -> tuple[DeviceOptions, tuple[Problem, ...]]:
    given = dict(frozen)
    problems: list[Problem] = []
    ipu = _ipu_model(system.ipu, given, table)
    tiles = ipu.tiles
    io_tiles = int(given.get("io_tiles.num_io_tiles", 0))
    if not 0 <= io_tiles < tiles:
        problems.append(
            Problem(
                "ipu.io_tiles.num_io_tiles",
                f"{io_tiles} of {tiles} tiles leave none for compute",
                f"0 to {tiles - 1}",
            )
        )
        io_tiles = 0
    default = table.values["memory_proportion"]
    conv = _matrix_options(given, "convolutions", default, problems)
    matmul = _matrix_options(given, "matmuls", default, problems)
    costing = Costing(
        tiles=tiles - io_tiles,
        tile_bytes=ipu.tile_bytes,
        macs_fp16_partials_fp16=ipu.macs_fp16_partials_fp16,
        macs_fp32=ipu.macs_fp32,
        half=half,
        conv_half_partials=conv[0],
        conv_proportion=conv[1],
        matmul_half_partials=matmul[0],
        matmul_proportion=matmul[1],
        stable_norms=bool(given.get("norms.use_stable_statistics", False)),
        training=training,
    )
    optimizations = "optimizations."
    options = DeviceOptions(
        ipu=ipu,
        io_tiles=io_tiles,
        io_proportion=float(given.get("io_tiles.available_memory_proportion", 0.9)),
        infeed_on_io_tiles=bool(given.get("io_tiles.place_ops_on_io_tiles", False))
        and io_tiles > 0,
        costing=costing,
        stream=StreamOptions(
            prefetch=bool(given.get(optimizations + "prefetch_data_streams", True)),
            merged=bool(given.get(optimizations + "merge_infeed_io_copies", True)),
        ),
        rearranged_on_host=bool(
            given.get("experimental.always_rearrange_copies_on_the_host", False)
        ),
        recompute=bool(given.get("allow_recompute", False)),
        selection_order=_name_of(given.get("selection_order", "AUTO")),
        outlining=bool(given.get(optimizations + "enable_graph_outlining", True)),
        sum_buffer_bytes=int(
            given.get(optimizations + "maximum_cross_replica_sum_buffer_size", 0)
        ),
    )
    return options, tuple(problems)


def _name_of(value: Any) -> str:
    """Return the name of a selection order, however it is given."""
    if isinstance(value, int) and 0 <= value < len(_SELECTION_ORDERS):
        return _SELECTION_ORDERS[value]
    return str(getattr(value, "name", value))


def _ipu_model(ipu: IpuType, given: Mapping[str, Any], table: HardwareTable) -> IpuType:
    """Apply the options of the IPU Model."""
    version = given.get("ipu_model.version", "")
    if version == "ipu1" and ipu.version != "ipu1":
        ipu = table.ipus["gc2"]
    tiles = int(given.get("ipu_model.tiles_per_ipu", 0))
    return ipu._replace(tiles=tiles) if tiles > 0 else ipu


def _matrix_options(
    given: Mapping[str, Any],
    group: str,
    default: float,
    problems: list[Problem],
) -> tuple[bool, float]:
    """Read partials and memory proportion of one group of options."""
    where = f"{group}.poplar_options"
    options = dict(given.get(where, ()))
    partials = options.get("partialsType", "float")
    if partials not in _PARTIALS:
        problems.append(
            Problem(f"ipu.{where}.partialsType", f"is {partials!r}", "half or float")
        )
    proportion = default
    text = options.get("availableMemoryProportion")
    if text is not None:
        try:
            proportion = float(text)
        except ValueError:
            proportion = -1.0
        if not 0 < proportion <= 1:
            problems.append(
                Problem(
                    f"ipu.{where}.availableMemoryProportion",
                    f"is {text!r}",
                    "a number above 0, at most 1, as text",
                )
            )
            proportion = default
    return partials == "half", proportion
