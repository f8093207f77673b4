"""Programs made from functions: `ipu.ipu_compiler`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.device_loop import trace_program
from ipu_runtime.engine.describe.function_program import announce_function
from ipu_runtime.engine.describe.model_scope import model_scope
from ipu_runtime.engine.describe.placement import (
    Placement,
    current_placement,
    placed_on,
)
from ipu_runtime.engine.run.late_programs import late_program
from ipu_runtime.engine.run.script_program import script_program, tracing
from ipu_runtime.estimators.tf_estimator import EstimatorSpec


def compile(  # noqa: A001 - the emulated API's own name
    computation: Callable[..., Any], inputs: Sequence[Any] | None = None
) -> Any:
    """Build one program; return its operation, or its results as a list."""
    placement = current_placement() or Placement(named=False)
    arguments = [tf.convert_to_tensor(item) for item in inputs or ()]
    before, placement.compiling = placement.compiling, True
    watched = script_program("compile", computation)
    try:
        with model_scope() as scope, placed_on(placement), tracing(watched):
            traced = trace_program(
                lambda *tensors: _results(computation, tensors), arguments
            )
            results = late_program(
                traced,
                placement.replica_count,
                lambda: announce_function(
                    "compile",
                    scope.layer_uses,
                    [item.op.name for item in tf.compat.v1.global_variables()],
                    placement,
                ),
                watched,
            )
    finally:
        placement.compiling = before
    if watched is not None:
        watched.graph = traced.graph
        watched.shards = max(placement.shards, default=0) + 1
    return results


def _results(
    computation: Callable[..., Any], tensors: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    outcome = computation(*tensors)
    placement = current_placement()
    if placement is None or not placement.named:
        raise Exception(
            "ipu_compiler.compile must be called inside a scope of an IPU device, or "
            "its computation must enter one: ipu.scopes.ipu_scope('/device:IPU:0')."
        )
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
