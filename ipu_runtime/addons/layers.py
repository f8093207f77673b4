"""`ipu_tensorflow_addons.layers`: the recurrent layers with the arguments of SDK 3.

They are those of `ipu.ops.rnn_ops`; only the order of the last arguments is another.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.ops import rnn_ops


class _LSTMArguments:
    def __init__(
        self,
        num_units: int,
        dtype: Any = tf.float32,
        partials_dtype: Any = tf.float32,
        seed: int | None = None,
        weights_initializer: Any = None,
        bias_initializer: Any = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        return_state: bool = True,
        name: str | None = None,
        options: Any = None,
        options_bwd: Any = None,
    ) -> None:
        super().__init__(**_given(locals()))


class _GRUArguments:
    def __init__(
        self,
        num_units: int,
        dtype: Any = tf.float32,
        partials_dtype: Any = tf.float32,
        seed: int | None = None,
        weights_initializer: Any = None,
        bias_initializer: Any = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        return_state: bool = True,
        name: str | None = None,
        reset_after: bool = False,
        options: Any = None,
        options_bwd: Any = None,
    ) -> None:
        super().__init__(**_given(locals()))


class PopnnLSTM(_LSTMArguments, rnn_ops.PopnnLSTM):
    """Long short-term memory."""


class PopnnDynamicLSTM(_LSTMArguments, rnn_ops.PopnnDynamicLSTM):
    """Long short-term memory over sequences of different lengths."""


class PopnnGRU(_GRUArguments, rnn_ops.PopnnGRU):
    """Gated recurrent unit."""


class PopnnDynamicGRU(_GRUArguments, rnn_ops.PopnnDynamicGRU):
    """Gated recurrent unit over sequences of different lengths."""


class PopnnAUGRU(_GRUArguments, rnn_ops.PopnnAUGRU):
    """Gated recurrent unit whose update gate is damped by an attention score."""


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor."""
    return {
        name: value
        for name, value in arguments.items()
        if name not in ("self", "__class__")
    }
