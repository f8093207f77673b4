"""Every field of the IPU configuration, declared once, in the order of the real one."""

from __future__ import annotations

from ipu_runtime.plan.config.config_enums import ENUM_OF_FIELD
from ipu_runtime.plan.config.field import Affects, Field, Kind

_TIME, _MEMORY = Affects.TIME, Affects.MEMORY
_NUMERICS, _DEVICE = Affects.NUMERICS, Affects.DEVICE


def _flag(path: str, default: bool, text: str, *affects: Affects) -> Field:
    return Field(path, Kind.BOOL, default, text, affects or (Affects.NOTHING,))


def _count(
    path: str,
    text: str,
    *affects: Affects,
    default: int = 0,
    minimum: int = 0,
    unit: str = "",
) -> Field:
    return Field(path, Kind.INT, default, text, affects, minimum=minimum, unit=unit)


def _options(path: str, text: str, *affects: Affects) -> Field:
    return Field(path, Kind.OPTIONS, {}, text, affects)


def _enum(path: str, default: str, text: str, *affects: Affects) -> Field:
    choices = tuple(ENUM_OF_FIELD[path].__members__)
    return Field(path, Kind.CHOICE, default, text, affects, choices=choices)


def _ipus(path: str, text: str) -> Field:
    return Field(path, Kind.IPU_SELECTION, [], text, (_DEVICE,), minimum=0)


def _buffer(path: str, what: str) -> Field:
    text = f"Most bytes of {what} that are put together into one; 0 puts none together."
    return _count(path, text, _TIME, _MEMORY, unit="bytes")


_TOP = (
    _flag(
        "allow_recompute",
        False,
        "Compute activations a second time in the backward pass instead of keeping "
        "them. Pipelines then choose a way with pipeline.recomputation.",
        _MEMORY,
        _TIME,
    ),
    _enum(
        "selection_order",
        "AUTO",
        "How the logical IPUs of a device with several map to physical ones.",
        _TIME,
    ),
    Field(
        "serialization_output_folder",
        Kind.TEXT,
        "",
        "Directory for compiled programs; empty writes none.",
    ),
    _options(
        "compilation_poplar_options",
        "Options of the Poplar compiler and engine, by name.",
        _TIME,
        _MEMORY,
    ),
    _options(
        "gcl_poplar_options", "Options of the library for collectives, by name.", _TIME
    ),
    _ipus(
        "auto_select_ipus",
        "IPUs that a TensorFlow device gets, chosen for you; a list makes one device "
        "per entry. More IPUs than a model needs make replicas of it.",
    ),
    _ipus(
        "select_ipus",
        "Device numbers as gc-info lists them; a list makes one TensorFlow device per "
        "entry. Not together with auto_select_ipus.",
    ),
)

_DEVICE_CONNECTION = (
    _enum(
        "device_connection.type",
        "ALWAYS",
        "When to attach to the device: at configuration, at the first execution, "
        "never, or only to compile (every result is then zero).",
        _DEVICE,
    ),
    Field(
        "device_connection.version",
        Kind.CHOICE,
        "",
        "Architecture to compile for when no device is attached.",
        (_DEVICE,),
        choices=("", "ipu1", "ipu2", "ipu21"),
    ),
    _flag(
        "device_connection.enable_remote_buffers",
        False,
        "Whether to assume that the later device has remote buffers; without effect "
        "when the type is ALWAYS.",
        _MEMORY,
    ),
)

_EXPERIMENTAL = (
    _flag(
        "experimental.always_rearrange_copies_on_the_host",
        False,
        "Rearrange streamed data on the host instead of on the IPU.",
        _TIME,
    ),
    _flag(
        "experimental.enable_remote_buffer_embedding",
        False,
        "Let host embeddings live in remote buffers.",
        _MEMORY,
    ),
    _flag(
        "experimental.enable_prng_stability",
        False,
        "Keep the random seeds of replicas in step, so that stochastic rounding does "
        "not drive their weights apart.",
        _NUMERICS,
    ),
    _count(
        "experimental.multi_replica_distribution.process_index",
        "Number of this process, from 0.",
        _DEVICE,
    ),
    _count(
        "experimental.multi_replica_distribution.process_count",
        "Processes that share the replicas; 0 means that there is only this one.",
        _DEVICE,
    ),
)

_FLOATING_POINT = (
    _flag(
        "floating_point_behaviour.inv",
        False,
        "Stop at an invalid floating-point operation.",
        _NUMERICS,
    ),
    _flag(
        "floating_point_behaviour.div0", False, "Stop at a division by 0.", _NUMERICS
    ),
    _flag(
        "floating_point_behaviour.oflo",
        False,
        "Stop when a result is too large for its type.",
        _NUMERICS,
    ),
    _enum(
        "floating_point_behaviour.esr",
        "OFF",
        "Stochastic rounding of half-precision results.",
        _NUMERICS,
    ),
    _flag(
        "floating_point_behaviour.nanoo",
        False,
        "Let half-precision overflow give NaN instead of the largest value.",
        _NUMERICS,
    ),
    _flag(
        "floating_point_behaviour.set_all",
        False,
        "Switch on all of the above, whatever they say themselves.",
        _NUMERICS,
    ),
)

_IO_TILES = (
    _count(
        "io_tiles.num_io_tiles",
        "Tiles set aside for input and output, so that they overlap with compute. A "
        "Grouped pipeline then needs two more micro-batches instead of a multiple.",
        _TIME,
        _MEMORY,
        unit="tiles",
    ),
    _flag(
        "io_tiles.place_ops_on_io_tiles",
        False,
        "Put input and output operations on the tiles set aside.",
        _TIME,
    ),
    Field(
        "io_tiles.available_memory_proportion",
        Kind.FLOAT,
        0.9,
        "Share of the I/O tiles' memory that data may fill.",
        (_MEMORY,),
        minimum=0.0,
        maximum=1.0,
    ),
)

_IPU_MODEL = (
    _flag(
        "ipu_model.compile_ipu_code",
        True,
        "Compile code of the IPU for the IPU Model too.",
    ),
    _count(
        "ipu_model.tiles_per_ipu",
        "Tiles of each IPU of the IPU Model; 0 takes what its version has.",
        _MEMORY,
        _TIME,
        unit="tiles",
    ),
    Field(
        "ipu_model.version",
        Kind.CHOICE,
        "ipu2",
        "Architecture of the IPU Model.",
        (_MEMORY, _TIME),
        choices=("ipu1", "ipu2"),
    ),
)

_MATMULS_AND_NORMS = (
    _flag(
        "matmuls.clear_pass_type",
        False,
        "Hide from the planner of matrix products whether it is a forward or a "
        "backward pass.",
        _MEMORY,
    ),
    _options(
        "matmuls.poplar_options",
        "Options of matrix products, as for convolutions.",
        _NUMERICS,
        _MEMORY,
        _TIME,
    ),
    _flag(
        "norms.use_stable_statistics",
        False,
        "Subtract the mean before the variance is computed: slower, more exact.",
        _NUMERICS,
        _TIME,
    ),
    _count(
        "norms.experimental.distributed_batch_norm_replica_group_size",
        "Replicas that share the statistics of batch normalization. Not for "
        "pipelines, not with I/O tiles.",
        _NUMERICS,
        default=1,
        minimum=1,
        unit="replicas",
    ),
)

_OPTIMIZATIONS = (
    _flag("optimizations.math.fast", False, "Allow rewrites that lose precision."),
    _flag(
        "optimizations.math.dot_strength",
        True,
        "Turn small products of matrices into elementwise operations.",
    ),
    _flag(
        "optimizations.prefetch_data_streams",
        True,
        "Fetch the next input while the current one is worked on.",
        _TIME,
    ),
    _flag(
        "optimizations.combine_embedding_lookups",
        False,
        "Join lookups in the same table.",
        _TIME,
        _MEMORY,
    ),
    _flag(
        "optimizations.combine_matmuls",
        False,
        "Join matrix products that share an operand.",
        _TIME,
        _MEMORY,
    ),
    _flag(
        "optimizations.enable_graph_outlining",
        True,
        "Use one copy of the code for equal parts of the graph.",
        _TIME,
        _MEMORY,
    ),
    _flag(
        "optimizations.merge_infeed_io_copies",
        True,
        "Copy all inputs of a step at once.",
        _TIME,
        _MEMORY,
    ),
    _buffer(
        "optimizations.maximum_cross_replica_sum_buffer_size", "sums over replicas"
    ),
    _buffer(
        "optimizations.maximum_reduce_scatter_buffer_size",
        "reductions that are scattered over replicas",
    ),
    _buffer(
        "optimizations.maximum_inter_ipu_copies_buffer_size", "copies between IPUs"
    ),
    _buffer("optimizations.maximum_send_recv_cluster_size", "exchanges with the host"),
    _buffer("optimizations.maximum_reduce_many_buffer_size", "grouped reductions"),
    _buffer("optimizations.maximum_all_gather_buffer_size", "gatherings from replicas"),
    _count(
        "optimizations.minimum_remote_tensor_size",
        "Smallest tensor that may be kept in streaming memory.",
        _MEMORY,
        default=128,
        unit="bytes",
    ),
    _enum(
        "optimizations.merge_remote_buffers",
        "IF_BENEFICIAL",
        "Whether remote buffers are put together.",
        _MEMORY,
    ),
    _flag(
        "optimizations.enable_gather_simplifier",
        True,
        "Rewrite embedding lookups in a simpler form.",
    ),
    _count(
        "optimizations.triangular_solve_expander_block_size",
        "Block size of the triangular solver; 0 chooses one.",
        _TIME,
    ),
    _count(
        "optimizations.cholesky_block_size",
        "Block size of the Cholesky decomposition; 0 chooses one.",
        _TIME,
    ),
    Field(
        "optimizations.enable_fast_math",
        Kind.BOOL,
        False,
        "Former place of optimizations.math.fast.",
        deprecated="use optimizations.math.fast instead.",
    ),
    _flag(
        "optimizations.enable_dynamic_slice_replacement",
        True,
        "Use planned slices where a dynamic slice would do.",
        _TIME,
        _MEMORY,
    ),
)

_SCHEDULING = (
    _enum(
        "scheduling.algorithm",
        "CHOOSE_BEST",
        "How the compiler orders operations.",
        _MEMORY,
    ),
    _count(
        "scheduling.maximum_scheduler_lookahead_depth",
        "How far LOOK_AHEAD looks.",
        _MEMORY,
        default=5,
    ),
    _count(
        "scheduling.maximum_scheduler_search_space_size",
        "How many orders LOOK_AHEAD weighs.",
        _MEMORY,
        default=64,
    ),
)

IPU_CONFIG_FIELDS: tuple[Field, ...] = (
    *_TOP,
    _options(
        "convolutions.poplar_options",
        "Options of convolutions: availableMemoryProportion, partialsType (half or "
        "float), and others.",
        _NUMERICS,
        _MEMORY,
        _TIME,
    ),
    *_DEVICE_CONNECTION,
    _options(
        "slices.poplar_options",
        "Options of slices and their updates, which embeddings use.",
        _MEMORY,
        _TIME,
    ),
    *_EXPERIMENTAL,
    *_FLOATING_POINT,
    *_IO_TILES,
    *_IPU_MODEL,
    *_MATMULS_AND_NORMS,
    *_OPTIMIZATIONS,
    _options("pooling.poplar_options", "Options of pooling.", _MEMORY, _TIME),
    *_SCHEDULING,
)

IPU_CONFIG_FIELD: dict[str, Field] = {field.path: field for field in IPU_CONFIG_FIELDS}
"""The same fields by dotted path."""
