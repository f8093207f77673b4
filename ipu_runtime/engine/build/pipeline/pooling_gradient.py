"""The gradient of max pooling where its forward pass is in another function."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

_AGAIN = "IpuMaxPoolAgain"


def pooled_again() -> AbstractContextManager[None]:
    """Let gradients of what is traced inside pool once more.

    TensorFlow's fast kernels remember where maxima were, but only from operation to
    operation of one function. The slow one takes three times as long as pooling again.
    """
    graph = tf.compat.v1.get_default_graph()
    context: AbstractContextManager[None] = graph.gradient_override_map(
        {"MaxPool": _AGAIN}
    )
    return context


@tf.RegisterGradient(_AGAIN)
def _max_pool_gradient(operation: Any, gradient: Any) -> Any:
    settings = {
        name: operation.get_attr(name)
        for name in ("ksize", "strides", "padding", "explicit_paddings", "data_format")
    }
    (pooled,) = operation.inputs
    again = tf.raw_ops.MaxPool(input=pooled, **settings)
    return tf.raw_ops.MaxPoolGrad(
        orig_input=pooled, orig_output=again, grad=gradient, **settings
    )
