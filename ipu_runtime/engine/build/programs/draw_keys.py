"""Random draws that depend on where they happen, not on when.

A draw is keyed by the layer's own seed, the weight update, the replica, the layer call
and the micro-batch. So a pipeline drops the same values as a plain loop, whatever its
schedule, and a recomputed stage drops what its forward pass dropped.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.engine.describe.model_graph import Call
from ipu_runtime.frameworks.keras_calls import layers_inside
from ipu_runtime.frameworks.keras_state import (
    seed_generators,
    shared_seed_generator,
    stored,
)

_DRAWS_PER_CALL = 64
"""Room for layers that draw several times in one call."""
_CALL_STRIDE = 15_485_863
_SEED_STRIDE = 104_729


class DrawKeys:
    """The seed generators of a model, and the values that they take."""

    def __init__(self, model: Any, seed: int) -> None:
        self._seed = seed
        self._by_layer = {
            id(layer): generators
            for layer in layers_inside(model)
            if (generators := seed_generators(layer))
        }
        self._global = shared_seed_generator()

    @property
    def variables(self) -> tuple[Any, ...]:
        """The variables in which the generators keep their state."""
        layers = [item for items in self._by_layer.values() for item in items]
        return tuple(item.state for item in (*layers, self._global))

    def enter(self, scope: Any, counter: Any) -> None:
        """Key all generators, for a model that runs as a whole.

        Args:
            counter: number of the micro-batch over all updates and replicas.
        """
        for variable in self.variables:
            self._set(scope, variable, counter, 0)

    def before_call(self, scope: Any, call: Call, counter: Any) -> None:
        """Key the generators of the layer that is about to be called."""
        for layer in layers_inside(call.operation):
            for generator in self._by_layer.get(id(layer), ()):
                self._set(scope, generator.state, counter, call.draw_index)

    def _set(self, scope: Any, variable: Any, counter: Any, draw_index: int) -> None:
        own = tf.cast(stored(variable)[0], tf.int64)
        first = own + draw_index * _CALL_STRIDE + self._seed * _SEED_STRIDE
        second = tf.cast(counter, tf.int64) * _DRAWS_PER_CALL
        scope.add_update(
            (variable, tf.cast(tf.stack([first, second]), stored(variable).dtype))
        )
