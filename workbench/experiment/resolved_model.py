"""The model of an experiment with its shapes, worked out once and remembered.

A form or a sweep validates the same layers thousands of times with other settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu_runtime.plan.layers.shapes import resolve_model
from ipu_runtime.plan.model.model_spec import LayerSpec, ModelSpec
from ipu_runtime.plan.problem import Problem
from workbench.experiment.experiment_spec import Model
from workbench.experiment.layer_blocks import expand_layers

_Layers = tuple[LayerSpec, ...]
_Problems = tuple[Problem, ...]
_Resolved = tuple[ModelSpec | None, _Problems]

_REMEMBERED = 64
_expanded: dict[str, tuple[_Layers, _Problems]] = {}
# Layers hold dictionaries and cannot be hashed; the kept tuple keeps its id its own.
_models: dict[tuple[int, str], tuple[_Layers, _Resolved]] = {}


def read_layers(model: Mapping[str, Any]) -> tuple[_Layers, _Problems]:
    """Return the layers of a `[model]` table, blocks written out."""
    key = repr((model.get("layers"), model.get("blocks")))
    found = _expanded.get(key)
    if found is None:
        found = expand_layers(model)
        if not found[0] and not found[1]:
            hint = "write them as [[model.layers]]"
            found = ((), (Problem("model.layers", "is missing", hint),))
        _forget_oldest(_expanded)
        _expanded[key] = found
    return found


def resolved(model: Model) -> _Resolved:
    """Return the model with shapes and weights, or None, and what is wrong with it."""
    if model.read is not None:
        return model.read.spec, model.read.problems
    key = (id(model.layers), model.dtype)
    found = _models.get(key)
    if found is None or found[0] is not model.layers:
        found = (model.layers, resolve_model(model.layers, model.dtype))
        _forget_oldest(_models)
        _models[key] = found
    return found[1]


def _forget_oldest(cache: dict[Any, Any]) -> None:
    while len(cache) >= _REMEMBERED:
        cache.pop(next(iter(cache)), None)
