"""The order of operations: `ipu.ops.control_flow_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def barrier(
    tensors: Any, insert_barrier_for_gradients: bool = False, name: str | None = None
) -> Any:
    """Return the tensors, none of which can be used before all of them are there."""
    flat = [tf.convert_to_tensor(item) for item in tf.nest.flatten(tensors)]
    together = _both_ways if insert_barrier_for_gradients else _one_way
    return tf.nest.pack_sequence_as(tensors, together(flat, name))


def _one_way(flat: list[Any], name: str | None) -> list[Any]:
    return list(tf.identity_n(flat, name=name))


def _both_ways(flat: list[Any], name: str | None) -> list[Any]:
    @tf.custom_gradient
    def identity(*values: Any) -> Any:
        def gradient(*upstream: Any) -> Any:
            return _one_way(list(upstream), None)

        return _one_way(list(values), name), gradient

    return list(identity(*flat))
