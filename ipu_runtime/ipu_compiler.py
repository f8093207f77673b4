"""Programs made from functions: `ipu.ipu_compiler`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.device_loop import build_once
from ipu_runtime.engine.model_scope import model_scope
from ipu_runtime.engine.placement import current_placement
from ipu_runtime.tf_estimator import EstimatorSpec


def compile(  # noqa: A001 - the emulated API's own name
    computation: Callable[..., Any], inputs: Sequence[Any] | None = None
) -> Any:
    """Build one program; return its operation, or its results as a list."""
    placement = current_placement()
    if placement is None:
        raise Exception(
            "ipu_compiler.compile must be called inside a scope of an IPU device: "
            "with ipu.scopes.ipu_scope('/device:IPU:0')."
        )
    arguments = [tf.convert_to_tensor(item) for item in inputs or ()]
    before, placement.compiling = placement.compiling, True
    try:
        with model_scope():
            return build_once(
                lambda *tensors: _results(computation, tensors),
                arguments,
                placement.replica_count,
            )
    finally:
        placement.compiling = before


def _results(
    computation: Callable[..., Any], tensors: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    outcome = computation(*tensors)
    if isinstance(outcome, EstimatorSpec):
        raise ValueError(
            "The computation returned an EstimatorSpec, which cannot be compiled."
        )
    if outcome is None:
        return [], []
    items = list(outcome) if isinstance(outcome, (list, tuple)) else [outcome]
    operations = [item for item in items if isinstance(item, tf.Operation)]
    values = [item for item in items if not isinstance(item, tf.Operation)]
    return [tf.convert_to_tensor(item) for item in tf.nest.flatten(values)], operations
