"""From an experiment's layers to a Keras model, ready to be trained."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ipu_runtime.plan.model.model_spec import LayerSpec
from workbench.data.model_tensors import compared_outputs, has_accuracy
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.losses import Loss
from workbench.models.model_source import SourceError
from workbench.training.optimizers import OPTIMIZERS
from workbench.training.stages import assign_stages

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
    if spec.model.source:
        model = _model_of_source(spec)
        if stage_scope is not None:
            assign_stages(model, stage_names(spec))
        return model
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


def _model_of_source(spec: ExperimentSpec) -> Any:
    from workbench.models.source_building import trainable_model
    from workbench.models.source_files import content_key

    if content_key(spec.model.model_source) != spec.model.content:
        raise SourceError(f"{spec.model.source} has changed since it was planned")
    return trainable_model(
        spec.model.model_source, spec.experiment.seed, trust=spec.model.runs_code
    )


def stage_names(spec: ExperimentSpec) -> dict[str, int]:
    """Return the stage of every layer of a pipeline, by its name."""
    names = (item.name for item in spec.model.layers if item.kind != "Input")
    return dict(zip(names, spec.pipeline.stages, strict=True))


def build_optimizer(spec: ExperimentSpec) -> Any:
    """Return the Keras optimizer of an experiment."""
    import keras

    names = OPTIMIZERS[spec.train.optimizer]
    settings = names.settings(spec.train.momentum)
    made = getattr(keras.optimizers, names.keras)
    return made(spec.train.learning_rate, **settings)


def compile_arguments(spec: ExperimentSpec) -> dict[str, Any]:
    """Return optimizer, loss and metrics as `Model.compile` takes them.

    Padding has sample weight 0, which only weighted metrics leave out.
    """
    padded = spec.data.preparation == "pad"
    compared, read = compared_outputs(spec), spec.model.read
    losses = [_keras_loss(loss) for _, loss in compared]
    metrics = [
        [_accuracy(loss)] if has_accuracy(spec, loss) else [] for _, loss in compared
    ]
    named = read is not None and read.named_outputs
    names = [end.name for end, _ in compared] if named else []
    return {
        "optimizer": build_optimizer(spec),
        "loss": _for_outputs(losses, names),
        "weighted_metrics" if padded else "metrics": _for_outputs(metrics, names),
    }


def _keras_loss(loss: Loss) -> Any:
    import keras

    if not loss.from_logits:
        return loss.name
    return getattr(keras.losses, loss.class_name)(from_logits=True)


def _accuracy(loss: Loss) -> Any:
    """Return the metric; Keras would take several answers of yes or no for classes."""
    import keras

    if loss.labels != "binary":
        return "accuracy"
    return keras.metrics.BinaryAccuracy("accuracy", threshold=loss.threshold)


def _for_outputs(values: list[Any], names: list[str]) -> Any:
    return dict(zip(names, values, strict=True)) if names else _alone(values)


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
