"""What subclassed models can do on the IPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.engine.describe.model_graph import model_graph, traced_network
from ipu_runtime.engine.feeds.feed import ArrayFeed
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.keras_calls import layers_inside, shapes_built_for
from ipu_runtime.frameworks.keras_training import is_keras_default
from ipu_runtime.frameworks.types import KerasModel
from ipu_runtime.keras.extensions.extension_state import state_of
from ipu_runtime.keras.extensions.extensions_base import KerasExtensionBase
from ipu_runtime.keras.extensions.option_table import options_from_config
from ipu_runtime.keras.extensions.pipeline_stage_assignment import Assignment
from ipu_runtime.keras.extensions.saved_options import (
    ASSIGNMENT_KEY,
    restore_assignment,
)
from ipu_runtime.keras.layer_calls import assignments_of
from ipu_runtime.keras.pipeline_stage import STAGE_TAG
from ipu_runtime.strategies.strategy_stack import noticing_stages, plain_models


class ModelExtension(KerasExtensionBase):
    """The layer calls are found by tracing `call`, when shapes are known."""

    @property
    def traced_network(self) -> Any:
        """The traced layer calls as a Functional model; None before tracing."""
        return state_of(self).network

    def _unassigned(self) -> list[Assignment]:
        state = state_of(self)
        if state.network is None:
            self._trace_built()
        return assignments_of(self, state.network)

    def get_pipeline_stage_assignment(self) -> list[Assignment]:
        """Return the stage of every layer call, in execution order."""
        if state_of(self).network is None:
            self._trace_built()
        return super().get_pipeline_stage_assignment()

    def _trace_built(self) -> None:
        shapes = shapes_built_for(self)
        if not getattr(self, "built", False) or not shapes:
            raise RuntimeError(
                f"The model {self.name} has not been built yet: its layer calls are "
                "not known. Call `build` with an input shape, or run it first."
            )
        inputs = [
            keras.KerasTensor(shape, dtype=keras.config.floatx()) for shape in shapes
        ]
        self._trace(inputs[0] if len(inputs) == 1 else inputs)

    def _trace_calls(self, x: Any, batch_size: int | None) -> None:
        state = state_of(self)
        _build_as_written(self, x, batch_size)
        if state.assignment is not None:
            self._check_calls_as_assigned(_input_specs(x, batch_size))
        elif state.network is None and not state.known_plain:
            inputs = _input_specs(x, batch_size)
            if self._may_be_pipelined() or _enters_stages(self, inputs):
                self._trace(inputs)
            state.known_plain = state.network is None

    def _check_calls_as_assigned(self, inputs: Any) -> None:
        with plain_models():
            now = traced_network(self, inputs)
        if _calls(now) != _calls(state_of(self).network):
            raise RuntimeError(
                f"The pipeline stage assignments of {self.name} are no longer valid: "
                "its layer calls have changed since they were assigned. Call "
                "`reset_pipeline_stage_assignment`, build the model again and assign "
                "its stages."
            )

    def _may_be_pipelined(self) -> bool:
        if state_of(self).pending is not None:
            return True
        inside = [layer for layer in layers_inside(self) if layer is not self]
        return any(STAGE_TAG in vars(layer) for layer in inside)

    def _trace(self, inputs: Any) -> None:
        state = state_of(self)
        with plain_models():
            state.network = traced_network(self, inputs)
        if state.assignment is None:
            self._apply_pending()

    def _apply_pending(self) -> None:
        state = state_of(self)
        pending, state.pending = state.pending, None
        restore_assignment(self, {ASSIGNMENT_KEY: pending})

    def restore_ipu_options(self, saved: Mapping[str, Any]) -> None:
        """Take over saved options; stages wait until the layer calls are known."""
        options_from_config(self._ipu_options, saved)
        state_of(self).pending = saved.get(ASSIGNMENT_KEY)


def _build_as_written(model: KerasModel, x: Any, batch_size: int | None) -> None:
    """Call a model's own `build`, which may make the layers that its `call` uses."""
    if not model.built and not is_keras_default(type(model).build):
        inputs = _input_specs(x, batch_size)
        model.build(keras.tree.map_structure(lambda item: tuple(item.shape), inputs))


def _enters_stages(model: KerasModel, inputs: Any) -> bool:
    """Tell whether the model's `call` puts layer calls into pipeline stages."""
    if type(model).call is keras.Model.call:
        return False
    symbols = keras.tree.map_structure(
        lambda item: keras.KerasTensor(
            item.shape, dtype=keras.backend.standardize_dtype(item.dtype)
        ),
        inputs,
    )
    with noticing_stages() as stages, plain_models():
        model.compute_output_spec(symbols)
    return bool(stages)


def _calls(network: Any) -> list[Any]:
    """Return what is called with which values; operations are made anew each time."""
    return [
        (
            id(call.operation)
            if isinstance(call.operation, keras.Layer)
            else type(call.operation),
            call.inputs,
            call.outputs,
        )
        for call in model_graph(network).calls
    ]


def _input_specs(x: Any, batch_size: int | None) -> Any:
    """Return shapes and types of one batch of data."""
    if isinstance(x, (tf.data.Dataset, ArrayFeed)):
        spec = x.element_spec
        return spec[0] if isinstance(spec, tuple) else spec
    size = batch_size or 32

    def batch_of(value: Any) -> Any:
        array = value if hasattr(value, "shape") else np.asarray(value)
        dtype = keras.backend.standardize_dtype(array.dtype)
        dtype = keras.config.floatx() if dtype == "float64" else dtype
        return keras.KerasTensor((size, *array.shape[1:]), dtype=dtype)

    return keras.tree.map_structure(batch_of, x)
