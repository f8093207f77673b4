"""The LSTM, and the LSTM over sequences of different lengths."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.tensorflow_graphs import LSTMStateTuple
from ipu_runtime.frameworks.types import Structure, Tensor
from ipu_runtime.ops.recurrent.recurrent_layer import PopnnRNN


class PopnnLSTM(PopnnRNN):
    """Long short-term memory."""

    _gates = 4

    def call(
        self, inputs: Tensor, initial_state: Structure = None, training: bool = True
    ) -> Any:
        """Return outputs and the last state, a tuple of `c` and `h`."""
        del training
        return self._lstm(inputs, None, initial_state)

    def state_shape(self, batch_size: int) -> tuple[list[int], list[int]]:
        """Return the shapes of both states."""
        return [batch_size, self.num_units], [batch_size, self.num_units]

    def _lstm(self, inputs: Tensor, seq_len: Any, initial_state: Structure) -> Any:
        if initial_state is not None and not isinstance(initial_state, LSTMStateTuple):
            raise ValueError(
                f"Invalid initial_state type: `{type(initial_state)}`, expecting "
                "`LSTMStateTuple`."
            )
        c, h = initial_state or (None, None)
        recurrent, biases = (
            self.kernel[self.input_size :],
            tf.reshape(self.biases, [-1]),
        )

        def step(states: Any, projected: Any) -> Any:
            h, c = states
            sums = projected + h @ recurrent + biases
            i, f, candidate, o = tf.split(sums, 4, axis=-1)
            gate = self._recurrent_activation
            c = gate(f) * c + gate(i) * self._activation(candidate)
            return gate(o) * self._activation(c), c

        states = self._state(h, inputs), self._state(c, inputs)
        outputs, (h, c) = self._run(inputs, states, step, seq_len)
        return (outputs, LSTMStateTuple(c, h)) if self._return_state else outputs


class PopnnDynamicLSTM(PopnnLSTM):
    """Long short-term memory over sequences of different lengths."""

    def call(  # type: ignore[override]
        self,
        inputs: Tensor,
        seq_len: Any,
        initial_state: Structure = None,
        training: bool = True,
    ) -> Any:
        """Return outputs and the state at the end of every sequence."""
        del training
        return self._lstm(inputs, seq_len, initial_state)
