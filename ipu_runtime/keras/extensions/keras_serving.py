"""Export a model as a SavedModel of its predict function: `export_for_ipu_serving`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.engine.applications.application import compile_application
from ipu_runtime.engine.applications.served_model import (
    checked_output_names,
    host_step,
    write_served_model,
)
from ipu_runtime.frameworks.types import KerasModel

Step = tuple[Any, Any]
"""A function around the model, and its signature; both None: there is none."""


def export_model(
    model: KerasModel,
    export_dir: str,
    batch_size: int | None,
    output_names: Any,
    preprocessing: Step,
    postprocessing: Step,
    purge_export_dir: bool,
) -> Any:
    """Write the SavedModel and return the function that predicts."""
    if not model.built:
        raise ValueError(f"The model {model.name} must be built before it is exported.")
    signature = _model_signature(model, batch_size)

    def predict(*inputs: Any) -> Any:
        return model(inputs[0] if len(inputs) == 1 else list(inputs), training=False)

    examples = [tf.zeros(spec.shape, spec.dtype) for spec in signature]
    return write_served_model(
        export_dir,
        purge_export_dir,
        lambda path: compile_application(
            predict, examples, path, freeze_variables=True, streamed=True
        ),
        signature,
        host_step("preprocessing_step", *preprocessing),
        host_step("postprocessing_step", *postprocessing),
        checked_output_names(output_names),
    )


def _model_signature(model: KerasModel, batch_size: int | None) -> list[tf.TensorSpec]:
    specs = []
    for symbol in model.inputs:
        shape = list(symbol.shape)
        if shape and batch_size is not None:
            shape[0] = batch_size
        if any(extent is None for extent in shape):
            raise ValueError(
                f"Input {symbol.name} has the shape {tuple(shape)}: every dimension "
                "must be known for an export. Give `batch_size`, or an Input with a "
                "batch size."
            )
        specs.append(tf.TensorSpec(shape, symbol.dtype, name=symbol.name))
    return specs
