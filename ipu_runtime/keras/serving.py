"""Export a model as a SavedModel of its predict function: `export_for_ipu_serving`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from ipu_runtime.keras.extensions.state import state_of

Step = tuple[Any, Any]
"""A function around the model, and its signature; both None: there is none."""


def export_model(
    model: Any,
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
    model_signature = _model_signature(model, batch_size)
    signature = _step_signature(preprocessing, "preprocessing_step") or model_signature
    _step_signature(postprocessing, "postprocessing_step")
    directory = _prepare_directory(export_dir, purge_export_dir)
    names = _output_names(model, output_names)

    @tf.function(input_signature=signature)
    def predict(*inputs: Any) -> Any:
        values: Any = inputs
        if preprocessing[0] is not None:
            values = _as_tuple(preprocessing[0](*values))
        outputs = model(values[0] if len(values) == 1 else list(values), training=False)
        if postprocessing[0] is not None:
            outputs = postprocessing[0](*_as_tuple(outputs))
        return dict(zip(names, _as_tuple(outputs), strict=True))

    module = tf.Module()
    module.predict = predict
    module.model = model
    module.executable = tf.saved_model.Asset(str(_write_executable(model, directory)))
    tf.saved_model.save(module, str(directory), signatures=predict)
    (directory / _EXECUTABLE).unlink()
    return predict


_EXECUTABLE = "application.poplar_exec"


def _write_executable(model: Any, directory: Path) -> Path:
    """Write what stands for the compiled program among the assets."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / _EXECUTABLE
    stages = state_of(model).options.stages
    content = {"emulated": True, "model": model.name, "pipelined": stages is not None}
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def _prepare_directory(export_dir: str, purge: bool) -> Path:
    directory = Path(export_dir)
    if directory.exists() and any(directory.iterdir()):
        if not purge:
            raise ValueError(
                f"The directory {export_dir!r} is not empty; give an empty one or set "
                "`purge_export_dir`."
            )
        shutil.rmtree(directory)
    return directory


def _model_signature(model: Any, batch_size: int | None) -> list[tf.TensorSpec]:
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


def _step_signature(step: Step, name: str) -> list[tf.TensorSpec] | None:
    function, signature = step
    if function is None:
        return None
    if signature is None:
        signature = getattr(function, "input_signature", None)
        if signature is None:
            raise ValueError(
                f"`{name}` must be a tf.function with an input_signature, or "
                f"`{name}_signature` must be given."
            )
        return list(signature)
    specs = isinstance(signature, (list, tuple)) and all(
        isinstance(spec, tf.TensorSpec) for spec in signature
    )
    if not specs:
        raise TypeError(
            f"`{name}_signature` must be a list or tuple of tf.TensorSpec, not "
            f"{signature!r}."
        )
    if not signature:
        raise ValueError(f"`{name}_signature` is empty.")
    return list(signature)


def _output_names(model: Any, given: Any) -> Sequence[str]:
    if given is None:
        return [f"output_{index}" for index in range(len(model.outputs))]
    return [given] if isinstance(given, str) else list(given)


def _as_tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (list, tuple)) else (values,)
