"""`ipu_tensorflow_addons.layers`: the recurrent layers with the arguments of SDK 3.

They are those of `ipu.ops.rnn_ops`; only the order of the last arguments is another.
"""

from __future__ import annotations

from typing import Any

from ipu_runtime.installing.signatures import with_arguments_of
from ipu_runtime.ops import rnn_ops

_ELSEWHERE = (
    "return_state",
    "available_memory_proportion_fwd",
    "available_memory_proportion_bwd",
)
"""What stands in another place here than in `ipu.ops.rnn_ops`, or is not there."""


class _LSTMArguments:
    @with_arguments_of(
        rnn_ops.PopnnLSTM.__init__, without=_ELSEWHERE, after="recurrent_activation"
    )
    def __init__(self, return_state: bool = True, **arguments: Any) -> None:
        super().__init__(  # type: ignore[call-arg]
            return_state=return_state, **arguments
        )


class _GRUArguments:
    @with_arguments_of(
        rnn_ops.PopnnGRU.__init__, without=_ELSEWHERE, after="recurrent_activation"
    )
    def __init__(self, return_state: bool = True, **arguments: Any) -> None:
        super().__init__(  # type: ignore[call-arg]
            return_state=return_state, **arguments
        )


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
