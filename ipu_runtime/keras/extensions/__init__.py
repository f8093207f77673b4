"""What models that are created under an IPU strategy can do besides plain Keras."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULE_OF = {
    "FunctionalExtension": "functional_extensions",
    "SequentialExtension": "sequential_extensions",
    "ModelExtension": "model_extensions",
}


def __getattr__(name: str) -> Any:
    # The engine reads `options` of this package, the classes are built on the engine.
    if name in _MODULE_OF:
        return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    parent = import_module("ipu_runtime.keras")
    if name in ("PipelineStage", "ReplicatedMetricReductionMethod") or name.endswith(
        "PipelineStageAssignment"
    ):
        return getattr(parent, name)
    raise AttributeError(f"module 'keras.ipu.extensions' has no attribute {name!r}")
