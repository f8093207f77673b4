"""The model classes of SDK 1.4: `ipu.keras.Sequential`, `Model`, `PipelineModel`.

They hold an ordinary Keras model that is extended for the IPU.
"""

from __future__ import annotations

from typing import Any

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.types import KerasModel
from ipu_runtime.keras.function_model_base import FunctionModel
from ipu_runtime.strategies.strategy_stack import current_strategy


class Sequential(FunctionModel):
    """`ipu.keras.Sequential`: a stack of layers on one IPU."""

    def __init__(
        self,
        layers: list[Any] | None = None,
        accumulation_count: int = 1,
        accumulation_dtype: Any = None,
        layer_replacement: bool = False,
        name: str | None = None,
    ) -> None:
        if not isinstance(layers, list):
            raise ValueError("IPU Sequential requires a list of layers.")
        _check_layers(layers)
        _require_strategy("Sequential")
        model = keras.Sequential(layers, name=name)
        _accumulate(model, accumulation_count, accumulation_dtype)
        del layer_replacement  # The layers of the host compute the same function.
        super().__init__(model, accumulation_count, pipelined=False)


class Model(FunctionModel):
    """`ipu.keras.Model`: a graph of layers on one IPU."""

    def __init__(
        self,
        inputs: Any = None,
        outputs: Any = None,
        *,
        accumulation_count: int = 1,
        accumulation_dtype: Any = None,
        layer_replacement: bool = False,
        name: str | None = None,
    ) -> None:
        if inputs is None or outputs is None:
            raise ValueError("IPU Model requires inputs and outputs.")
        _require_strategy("Model")
        model = keras.Model(inputs, outputs, name=name)
        _accumulate(model, accumulation_count, accumulation_dtype)
        del layer_replacement
        super().__init__(model, accumulation_count, pipelined=False)


class SequentialPipelineModel(FunctionModel):
    """`ipu.keras.SequentialPipelineModel`: a list of stages, each a list of layers."""

    def __init__(
        self,
        stages: list[list[Any]],
        gradient_accumulation_count: int,
        device_mapping: list[int] | None = None,
        layer_replacement: bool = False,
        name: str | None = None,
        **options: Any,
    ) -> None:
        if not isinstance(stages, list) or not stages:
            raise ValueError("An IPU pipeline needs a non-empty list of stages.")
        for stage in stages:
            if not isinstance(stage, list) or not stage:
                raise ValueError("Each stage must be a non-empty list of layers.")
            _check_layers(stage)
        _require_strategy("SequentialPipelineModel")
        del layer_replacement
        model = keras.Sequential([layer for s in stages for layer in s], name=name)
        model.set_pipeline_stage_assignment(
            [index for index, stage in enumerate(stages) for _ in stage]
        )
        _pipeline(model, gradient_accumulation_count, device_mapping, options)
        super().__init__(model, gradient_accumulation_count, pipelined=True)


class PipelineModel(FunctionModel):
    """`ipu.keras.PipelineModel`: a graph whose layers have a `PipelineStage`."""

    def __init__(
        self,
        inputs: Any = None,
        outputs: Any = None,
        gradient_accumulation_count: int | None = None,
        device_mapping: list[int] | None = None,
        layer_replacement: bool = False,
        name: str | None = None,
        **options: Any,
    ) -> None:
        if inputs is None or outputs is None:
            raise ValueError("IPU PipelineModel requires inputs and outputs.")
        if gradient_accumulation_count is None:
            raise ValueError("gradient_accumulation_count must be given.")
        _require_strategy("PipelineModel")
        del layer_replacement
        model = keras.Model(inputs, outputs, name=name)
        _pipeline(model, gradient_accumulation_count, device_mapping, options)
        super().__init__(model, gradient_accumulation_count, pipelined=True)


class PipelinedModel:
    """The older name of `SequentialPipelineModel`."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError(
            "PipelinedModel has been renamed to SequentialPipelineModel."
        )


def _require_strategy(name: str) -> None:
    if current_strategy() is None:
        raise RuntimeError(
            f"ipu.keras.{name} must be created inside `IPUStrategy().scope()`."
        )


def _check_layers(layers: list[Any]) -> None:
    for layer in layers:
        if not isinstance(layer, keras.layers.Layer):
            raise ValueError(f"{layer!r} is not a Keras layer.")


def _accumulate(model: KerasModel, count: int, dtype: Any) -> None:
    options = {} if dtype is None else {"dtype": dtype}
    model.set_gradient_accumulation_options(count, **options)
    model.set_replication_options("MEAN")


def _pipeline(
    model: KerasModel,
    count: int,
    device_mapping: list[int] | None,
    options: dict[str, Any],
) -> None:
    # Where the count is 1 and there is no batch serialisation, nothing is serialised.
    if options.pop("batch_serialization_iterations", 1) != 1:
        raise NotImplementedError(
            "batch_serialization_iterations other than 1 is not supported."
        )
    model.set_pipelining_options(
        count,
        device_mapping=device_mapping,
        **{name: value for name, value in options.items() if value is not None},
    )
