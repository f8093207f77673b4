"""The model behind a model function, read from the Keras layers that it calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ipu_runtime.engine.describe.keras_reader import (
    costed_layer,
    layer_kind,
    layer_settings,
    model_dtypes,
    read_model,
)
from ipu_runtime.engine.describe.model_graph import NotAGraphError
from ipu_runtime.engine.describe.model_scope import LayerUse
from ipu_runtime.engine.describe.repeatable_call import call_of_use
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.plan.layers.shapes import model_of, shaped_layer
from ipu_runtime.plan.model.model_spec import Layer, LayerSpec, ModelSpec
from ipu_runtime.plan.problem import Problem

_STAGE = re.compile(r"stage_(\d+)$")


@dataclass(frozen=True)
class ReadLayers:
    """A model specification, or why there is none."""

    spec: ModelSpec | None
    reason: str = ""
    stage_of_layer: tuple[int, ...] = ()
    """Stage of every layer, when the layers were called in pipeline stages."""


def read_layer_uses(uses: Sequence[LayerUse]) -> ReadLayers:
    """Return the model that layer calls in a graph make up."""
    if not uses:
        return ReadLayers(None, "the model function calls no Keras layers")
    if len(uses) == 1 and isinstance(uses[0].layer, keras.Model):
        try:
            return ReadLayers(read_model(uses[0].layer))
        except (NotAGraphError, ValueError) as error:
            return ReadLayers(None, str(error))
    return _Reader().read(uses)


class _Reader:
    """Links layer calls by the tensors that they take and make."""

    def __init__(self) -> None:
        self._layers: list[Layer] = []
        self._problems: list[Problem] = []
        self._maker: dict[tuple[int, str], str] = {}
        self._shapes: list[tuple[str, Any]] = []
        self._stages: list[int] = []

    def read(self, uses: Sequence[LayerUse]) -> ReadLayers:
        """Return what the calls make up, each named after its layer."""
        dtype, weight_dtype = model_dtypes(use.layer for use in uses)
        for use in uses:
            if isinstance(use.layer, keras.Model):
                return ReadLayers(
                    None, "the model function calls several models or a nested one"
                )
            self._add(use, dtype)
        spec, problems = model_of(self._layers, dtype, weight_dtype)
        problems = (*self._problems, *problems)
        if spec is None or problems:
            return ReadLayers(None, "; ".join(str(item) for item in problems))
        staged = self._stages if any(self._stages) else []
        return ReadLayers(spec, "", tuple(staged))

    def _add(self, use: LayerUse, dtype: str) -> None:
        name = self._unique(use.layer.name)
        kind, settings = layer_kind(use.layer), layer_settings(use.layer)
        sources = tuple(self._source(tensor) for tensor in use.inputs)
        spec = LayerSpec(name, kind, settings, sources)
        self._layers.append(costed_layer(call_of_use(use), spec, dtype))
        for output in use.outputs:
            self._maker[_key(output)] = name
        match = _STAGE.search(getattr(use.outputs[0].graph, "name", ""))
        self._stages.append(int(match.group(1)) if match else 0)
        self._shapes.append((name, use.outputs[0].shape))

    def _unique(self, name: str) -> str:
        taken = {layer.name for layer in self._layers}
        number = 1
        unique = name
        while unique in taken:
            unique = f"{name}_call{number}"
            number += 1
        return unique

    def _source(self, tensor: Any) -> str:
        """Return the layer that a tensor comes from, or a new input."""
        waiting, seen = [tensor], set()
        while waiting:
            current = waiting.pop(0)
            maker = self._maker.get(_key(current))
            if maker is not None:
                return maker
            if current.op.name in seen:
                continue
            seen.add(current.op.name)
            waiting.extend(current.op.inputs)
        # A stage's graph starts with what the stage before it returned.
        if _STAGE.search(getattr(tensor.graph, "name", "")):
            for name, shape in reversed(self._shapes):
                if shape == tensor.shape:
                    return name
        name = self._unique("input")
        # Older scripts have extents that are objects, which only a list is free of.
        shape = [extent or -1 for extent in tensor.shape.as_list()[1:]]
        layer = shaped_layer(LayerSpec(name, "Input", {"shape": shape}), (), name)
        if isinstance(layer, Problem):
            self._problems.append(layer)
        else:
            self._layers.append(layer)
        self._maker[_key(tensor)] = name
        return name


def _key(tensor: Any) -> tuple[int, str]:
    return id(tensor.graph), tensor.name
