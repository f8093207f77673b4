"""Weights that several layer calls use: of one layer, or tied between layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ipu_runtime.plan.model.model_spec import Layer


class SharedWeights:
    """Finds out, call after call, which weights an earlier one has."""

    def __init__(self) -> None:
        self._owner: dict[int, str] = {}
        """Name of the first call that uses a variable, by its identity."""
        self._first: dict[str, str] = {}
        """The first of all calls that a call shares weights with, itself if none."""

    def marked(self, layer: Layer, operation: Any) -> Layer:
        """Return the next call with those of its weights marked that are not new."""
        if not layer.weights:
            return layer
        variables = [id(variable) for variable in operation.weights]
        known = [variable in self._owner for variable in variables]
        firsts = {
            self._first[self._owner[variable]]
            for variable in variables
            if variable in self._owner
        }
        self._first[layer.name] = self._joined(firsts) if firsts else layer.name
        for variable in variables:
            self._owner.setdefault(variable, layer.name)
        if len(known) != len(layer.weights):
            # A kind of the plan's may count several variables as one.
            known = [all(known)] * len(layer.weights)
        weights = zip(layer.weights, known, strict=True)
        marked = tuple(replace(weight, shared=shared) for weight, shared in weights)
        return replace(layer, weights=marked)

    def _joined(self, firsts: set[str]) -> str:
        """Make one group of several, and return its first call."""
        if len(firsts) == 1:
            return next(iter(firsts))
        first = next(name for name in self._first if name in firsts)
        for name, other in self._first.items():
            self._first[name] = first if other in firsts else other
        return first

    def grouped(self, layer: Layer) -> Layer:
        """Return a call, all of them being known, with the first of its group."""
        first = self._first.get(layer.name, layer.name)
        return replace(layer, weights_of="" if first == layer.name else first)
