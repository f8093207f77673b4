"""Which module answers to which name of the emulated API."""

from __future__ import annotations

ROOT_MODULES = (
    "autoshard",
    "config",
    "cross_replica_optimizer",
    "dataset_benchmark",
    "distributed",
    "gradient_accumulation",
    "gradient_accumulation_optimizer",
    "horovod",
    "ipu_compiler",
    "ipu_estimator",
    "ipu_infeed_queue",
    "ipu_optimizer",
    "ipu_outfeed_queue",
    "ipu_pipeline_estimator",
    "ipu_run_config",
    "ipu_session_run_hooks",
    "ipu_strategy",
    "keras",
    "loops",
    "map_gradient_optimizer",
    "ops",
    "optimizers",
    "scopes",
    "serving",
    "sharded_optimizer",
    "sharding",
    "utils",
)
"""Submodules of `ipu`; each is `ipu_runtime.<name>`."""

OPS_MODULES = (
    "all_to_all_op",
    "cross_replica_ops",
    "functional_ops",
    "pipelining_ops",
    "rand_ops",
    "replication_ops",
)
"""Submodules of `ipu.ops` that are also submodules of `ipu`."""

ABSENT_MODULES = (
    "application_compile_op",
    "control_flow_ops",
    "custom_ops",
    "data",
    "eager",
    "embedded_runtime",
    "embedding_ops",
    "f8_ops",
    "grad_util_ops",
    "image_ops",
    "internal_ops",
    "ipu_multi_worker_strategy",
    "math_ops",
    "nn_ops",
    "normalization_ops",
    "reduce_scatter_op",
    "slicing_ops",
    "statistics_ops",
    "vertex_edsl",
    "within_replica_ops",
)
"""Submodules of the real package that the emulator does not have."""

ALIASES = {
    "tensorflow.python.ipu": "ipu_runtime",
    "tensorflow.keras.ipu": "ipu_runtime.keras",
    "keras.ipu": "ipu_runtime.keras",
    "keras._tf_keras.keras.ipu": "ipu_runtime.keras",
    "keras.optimizer_v2": "ipu_runtime.compat.optimizer_v2",
    "ipu_tensorflow_addons": "ipu_runtime.addons",
    "popdist": "ipu_runtime.popdist",
    "tensorflow.compiler.plugin": "ipu_runtime.compat.plugin",
}
"""Dotted prefixes under which scripts import the emulator."""


def module_of(name: str) -> str | None:
    """Return the module behind `ipu.<name>`, or None if there is none."""
    if name in ROOT_MODULES:
        return f"ipu_runtime.{name}"
    if name in OPS_MODULES:
        return f"ipu_runtime.ops.{name}"
    return None


def target_of(dotted: str) -> str | None:
    """Return the module that an import of `dotted` should give, if it is ours."""
    for prefix, package in ALIASES.items():
        if dotted == prefix:
            return package
        if dotted.startswith(prefix + "."):
            rest = dotted[len(prefix) + 1 :]
            if package != "ipu_runtime":
                return f"{package}.{rest}"
            head, _, tail = rest.partition(".")
            module = module_of(head)
            return f"{module}.{tail}" if module and tail else module
    return None
