"""The GRU, over sequences of different lengths too, and with attention."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.types import Tensor
from ipu_runtime.installing.signatures import with_arguments_of
from ipu_runtime.ops.recurrent.recurrent_layer import PopnnRNN, v1


class PopnnGRU(PopnnRNN):
    """Gated recurrent unit.

    With `reset_after` the reset gate is applied to the product with the state, and
    there are two biases: one beside the inputs, one beside the state.
    """

    _gates = 3

    @with_arguments_of(PopnnRNN.__init__, after="name")
    def __init__(self, reset_after: bool = False, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._reset_after = reset_after

    @property
    def canonical_bias_shapes(self) -> list[int]:
        """Shape of the biases."""
        gates, units = super().canonical_bias_shapes
        return [gates, 2, units] if self._reset_after else [gates, units]

    def state_shape(self, batch_size: int) -> list[int]:
        """Return the shape of the state."""
        return [batch_size, self.num_units]

    def call(
        self, inputs: Tensor, initial_state: Tensor = None, training: bool = True
    ) -> Any:
        """Return outputs and the last state."""
        del training
        return self._gru(inputs, initial_state)

    def _gru(
        self,
        inputs: Tensor,
        initial_state: Tensor,
        seq_len: Any = None,
        attention: Any = None,
    ) -> Any:
        weights = tf.split(self.kernel[self.input_size :], 3, axis=1)
        if self._reset_after:
            beside_inputs, beside_state = tf.unstack(self.biases, axis=1)
        else:
            beside_inputs, beside_state = self.biases, tf.zeros_like(self.biases)

        def step(states: Any, projected: Any, score: Any = None) -> Any:
            (h,) = states
            gate = self._recurrent_activation
            of_inputs = [
                part + bias
                for part, bias in zip(
                    tf.split(projected, 3, axis=-1),
                    tf.unstack(beside_inputs),
                    strict=True,
                )
            ]
            update, reset = (
                gate(of_inputs[index] + h @ weights[index] + beside_state[index])
                for index in range(2)
            )
            if self._reset_after:
                recurrent = reset * (h @ weights[2] + beside_state[2])
            else:
                recurrent = (reset * h) @ weights[2]
            candidate = self._activation(of_inputs[2] + recurrent)
            if score is not None:
                update *= 1 - score
            return (update * h + (1 - update) * candidate,)

        outputs, (h,) = self._run(
            inputs, (self._state(initial_state, inputs),), step, seq_len, attention
        )
        return (outputs, h) if self._return_state else outputs


class PopnnDynamicGRU(PopnnGRU):
    """Gated recurrent unit over sequences of different lengths.

    Biases of both gates start at 1, unless an initializer is given.
    """

    def _make_biases(self) -> list[Any]:
        given, units = self._bias_initializer, self.num_units
        return [
            self._variable("bias_r_u", [2, units], given or v1.ones_initializer()),
            self._variable("bias_c", [1, units], given or v1.zeros_initializer()),
        ]

    @property
    def biases(self) -> Any:
        """Biases of all gates; with `reset_after` both of a gate are the same."""
        biases = super().biases
        return tf.stack([biases] * 2, axis=1) if self._reset_after else biases

    def call(  # type: ignore[override]
        self,
        inputs: Tensor,
        seq_len: Any,
        initial_state: Tensor = None,
        training: bool = True,
        time_major: bool = True,
    ) -> Any:
        """Return outputs, with time first, and the state at the end of a sequence."""
        del training
        inputs = inputs if time_major else tf.transpose(inputs, [1, 0, 2])
        return self._gru(inputs, initial_state, seq_len)


class PopnnAUGRU(PopnnDynamicGRU):
    """Gated recurrent unit whose update gate is damped by an attention score."""

    def call(  # type: ignore[override]
        self,
        inputs: Tensor,
        seq_len: Any,
        attention_score: Any,
        initial_state: Tensor = None,
        training: bool = True,
        time_major: bool = True,
    ) -> Any:
        """Return outputs, with time first, and the state at the end of a sequence.

        The score has a value for every step and sample, ordered like the inputs.
        """
        del training
        if not time_major:
            inputs = tf.transpose(inputs, [1, 0, 2])
            attention_score = tf.transpose(attention_score)
        return self._gru(inputs, initial_state, seq_len, attention_score)
