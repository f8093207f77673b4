"""`keras.ipu`, which is also `ipu.keras`: the Keras side of the emulated API.

Names are looked up when they are asked for: the engine reads the option types of
this package, and should not load the classes that are built on the engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__ipu__built__ = "1"

_STAGES = (
    "FunctionalLayerPipelineStageAssignment",
    "FunctionalNestedModelPipelineStageAssignment",
    "ModelLayerPipelineStageAssignment",
    "NestedModelPipelineStageAssignment",
    "PipelineStage",
    "SequentialLayerPipelineStageAssignment",
    "SequentialNestedModelPipelineStageAssignment",
)
_MODULE_OF = {
    "ReplicatedMetricReductionMethod": "extensions.extensions_base",
    **dict.fromkeys(_STAGES, "extensions.pipeline_stage_assignment"),
    "Model": "function_models",
    "Sequential": "function_models",
    "PipelineModel": "function_models",
    "SequentialPipelineModel": "function_models",
    "PipelinedModel": "function_models",
}
_SUBMODULES = ("extensions", "layers", "optimizers")

__all__ = ["__ipu__built__", *_MODULE_OF, *_SUBMODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'keras.ipu' has no attribute {name!r}")
