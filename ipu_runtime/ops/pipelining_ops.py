"""Schedules, recomputation modes and stage options: `ipu.ops.pipelining_ops`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ipu_runtime.engine.describe.model_options import (
    PipelineSchedule,
    RecomputationMode,
)

__all__ = ["PipelineSchedule", "PipelineStageOptions", "RecomputationMode"]


class PipelineStageOptions:
    """Poplar options of one stage; they override those of the `IPUConfig`."""

    def __init__(
        self,
        convolution_options: Mapping[str, str] | None = None,
        matmul_options: Mapping[str, str] | None = None,
        slice_options: Mapping[str, str] | None = None,
    ) -> None:
        self.convolution_options = _checked("convolution_options", convolution_options)
        self.matmul_options = _checked("matmul_options", matmul_options)
        self.slice_options = _checked("slice_options", slice_options)


def _checked(name: str, options: Mapping[str, str] | None) -> dict[str, str]:
    if options is None:
        return {}
    if not isinstance(options, dict):
        raise TypeError(
            f"PipelineStageOptions {name} must be a dict, not {options!r} "
            f"({type(options).__name__})."
        )
    return options


_IN_PIPELINE_OP = ("OptimizerFunctionOutput", "pipeline", "recomputation_checkpoint")


def __getattr__(name: str) -> Any:
    # `pipeline` needs TensorFlow, the enums do not.
    if name in _IN_PIPELINE_OP:
        module = import_module("ipu_runtime.pipelining.pipeline_op")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
