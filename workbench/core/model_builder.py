"""From an experiment's layers to a Keras model, ready to be trained."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ipu_runtime.plan.model_spec import LayerSpec
from workbench.core.experiment_spec import ExperimentSpec

StageScope = Callable[[int], AbstractContextManager[Any]]
"""Marks the layers built inside it as a stage, as `ipu.keras.PipelineStage` does."""

_TAKES_LIST = frozenset({"Add", "Concatenate"})


def build_keras_model(
    spec: ExperimentSpec, stage_scope: StageScope | None = None
) -> Any:
    """Return the functional Keras model of an experiment, its weights seeded.

    Args:
        spec: The experiment.
        stage_scope: Entered with the stage of every layer of a pipelined experiment.
    """
    # Late, because Keras loads TensorFlow.
    import keras

    keras.utils.set_random_seed(spec.experiment.seed)
    stages = iter(spec.pipeline.stages)
    tensors: dict[str, Any] = {}
    used: set[str] = set()
    for layer in spec.model.layers:
        if layer.kind == "Input":
            tensors[layer.name] = _input(spec, layer)
            continue
        stage = next(stages, None)
        with _scope(stage_scope, stage):
            sources = [tensors[name] for name in layer.inputs]
            tensors[layer.name] = call_layer(
                make_layer(layer, spec.model.dtype), layer, sources
            )
        used.update(layer.inputs)
    inputs = [tensors[item.name] for item in spec.model.layers if item.kind == "Input"]
    outputs = [tensors[name] for name in tensors if name not in used]
    return keras.Model(_alone(inputs), _alone(outputs), name=_model_name(spec))


def build_optimizer(spec: ExperimentSpec) -> Any:
    """Return the Keras optimizer of an experiment."""
    import keras

    rate = spec.train.learning_rate
    optimizers: dict[str, Callable[[], Any]] = {
        "sgd": lambda: keras.optimizers.SGD(rate),
        "momentum": lambda: keras.optimizers.SGD(rate, momentum=spec.train.momentum),
        "rmsprop": lambda: keras.optimizers.RMSprop(rate),
        "adam": lambda: keras.optimizers.Adam(rate),
    }
    return optimizers[spec.train.optimizer]()


def compile_arguments(spec: ExperimentSpec) -> dict[str, Any]:
    """Return optimizer, loss and metrics as `Model.compile` takes them.

    Padding has sample weight 0, which only weighted metrics leave out.
    """
    padded = spec.data.preparation == "pad"
    return {
        "optimizer": build_optimizer(spec),
        "loss": spec.train.loss,
        "weighted_metrics" if padded else "metrics": ["accuracy"],
    }


def _scope(
    stage_scope: StageScope | None, stage: int | None
) -> AbstractContextManager[Any]:
    if stage_scope is None or stage is None:
        return nullcontext()
    return stage_scope(stage)


def _input(spec: ExperimentSpec, layer: LayerSpec) -> Any:
    import keras

    embedded = any(
        other.kind == "Embedding" and layer.name in other.inputs
        for other in spec.model.layers
    )
    dtype = layer.settings.get("dtype", "int32" if embedded else "float32")
    shape = tuple(layer.settings["shape"])
    return keras.Input(shape=shape, dtype=dtype, name=layer.name)


def make_layer(layer: LayerSpec, dtype: str) -> Any:
    """Return the Keras layer of a specification, not yet called."""
    import keras

    settings = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in layer.settings.items()
    }
    settings.setdefault("dtype", dtype)
    return getattr(keras.layers, layer.kind)(**settings, name=layer.name)


def call_layer(made: Any, layer: LayerSpec, sources: list[Any]) -> Any:
    """Call a layer on the tensors that it takes."""
    if layer.kind in _TAKES_LIST:
        return made(sources)
    if layer.kind == "MultiHeadAttention" and len(sources) == 1:
        return made(sources[0], sources[0])
    return made(*sources)


def _alone(tensors: list[Any]) -> Any:
    return tensors[0] if len(tensors) == 1 else tensors


def _model_name(spec: ExperimentSpec) -> str:
    kept = "".join(char if char.isalnum() else "_" for char in spec.experiment.name)
    return kept or "model"
