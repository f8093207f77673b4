"""What the recurrent layers have in common: variables, and a scan over time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.types import DType, Tensor
from ipu_runtime.ops.nn_ops import hard_sigmoid

v1 = tf.compat.v1

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "tanh": tf.tanh,
    "relu": tf.nn.relu,
    "softmax": tf.nn.softmax,
    "sigmoid": tf.sigmoid,
    "hard_sigmoid": hard_sigmoid,
}


class PopnnRNN:
    """A layer whose variables are made once, in a scope of TensorFlow 1."""

    _gates = 0

    def __init__(
        self,
        num_units: int,
        dtype: DType = tf.float32,
        partials_dtype: DType = tf.float32,
        seed: int | None = None,
        weights_initializer: Any = None,
        bias_initializer: Any = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        name: str | None = None,
        available_memory_proportion_fwd: float | None = None,
        available_memory_proportion_bwd: float | None = None,
        options: Any = None,
        options_bwd: Any = None,
        return_state: bool = True,
    ) -> None:
        # How the device computes and where it keeps temporary values.
        del partials_dtype, options, options_bwd
        del available_memory_proportion_fwd, available_memory_proportion_bwd
        self.dtype = tf.as_dtype(dtype)
        if self.dtype not in (tf.float16, tf.float32):
            raise ValueError(
                f"Only support float16, float32, provided {self.dtype.name}."
            )
        self.num_units = num_units
        self.num_layers = 1
        self.built = False
        kind = re.sub("([a-z])([A-Z])", r"\1_\2", type(self).__name__).lower()
        self.name = name or kind
        self._activation = _activation(activation, ())
        self._recurrent_activation = _activation(recurrent_activation, ("relu",))
        self._weights_initializer = (
            weights_initializer or v1.glorot_uniform_initializer(seed)
        )
        self._bias_initializer = bias_initializer
        self._return_state = return_state
        self._input_size = 0

    @property
    def input_size(self) -> int:
        """Number of features; known after the layer is built."""
        if not self.built:
            raise ValueError("'input_size' is unknown since layer has not been built.")
        return self._input_size

    @property
    def canonical_weight_shape(self) -> list[int]:
        """Shape of the kernel."""
        return [self.input_size + self.num_units, self._gates * self.num_units]

    @property
    def canonical_bias_shapes(self) -> list[int]:
        """Shape of the biases."""
        return [self._gates, self.num_units]

    @property
    def trainable_variables(self) -> list[Any]:
        """Kernel and biases."""
        return [self.kernel, *self._bias_variables]

    def build(self, input_shape: Any) -> None:
        """Make the variables, for inputs of time, batch and features."""
        if self.built:
            return
        shape = tf.TensorShape(input_shape)
        if shape.rank != 3:
            raise ValueError(f"Expecting input_shape with 3 dims, got {shape.rank}.")
        features = shape.as_list()[-1]
        if features is None:
            raise ValueError("The last dimension of the inputs should be defined.")
        self._input_size = features
        self.built = True
        with v1.variable_scope(None, self.name):
            self.kernel = self._variable(
                "kernel", self.canonical_weight_shape, self._weights_initializer
            )
            self._bias_variables = self._make_biases()

    def _make_biases(self) -> list[Any]:
        initializer = self._bias_initializer or v1.zeros_initializer()
        return [self._variable("biases", self.canonical_bias_shapes, initializer)]

    def _variable(self, name: str, shape: Sequence[int], initializer: Any) -> Any:
        return v1.get_variable(name, shape, self.dtype, initializer, use_resource=True)

    @property
    def biases(self) -> Any:
        """Biases of all gates."""
        return tf.concat(self._bias_variables, 0)

    def __call__(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Any:
        inputs = tf.convert_to_tensor(inputs, self.dtype)
        self.build(inputs.shape)
        return self.call(inputs, *args, **kwargs)

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Run over a sequence."""
        raise NotImplementedError

    def _run(
        self,
        inputs: Tensor,
        states: tuple[Any, ...],
        step: Callable[..., tuple[Any, ...]],
        seq_len: Any = None,
        extra: Any = None,
    ) -> tuple[Any, tuple[Any, ...]]:
        """Scan over time; beyond a sample's length states stay and outputs are zero."""
        elements = [tf.tensordot(inputs, self.kernel[: self.input_size], 1)]
        if extra is not None:
            elements.append(tf.convert_to_tensor(extra, self.dtype)[:, :, None])
        if seq_len is not None:
            mask = tf.sequence_mask(seq_len, tf.shape(inputs)[0])
            elements.append(tf.transpose(mask)[:, :, None])

        def advance(before: tuple[Any, ...], now: tuple[Any, ...]) -> tuple[Any, ...]:
            given = now if seq_len is None else now[:-1]
            after = step(before, *given)
            if seq_len is None:
                return after
            return tuple(
                tf.where(now[-1], new, old)
                for new, old in zip(after, before, strict=True)
            )

        history = tf.scan(advance, tuple(elements), states)
        outputs = history[0]
        if seq_len is not None:
            outputs = tf.where(elements[-1], outputs, tf.zeros_like(outputs))
        outputs.set_shape([inputs.shape[0], inputs.shape[1], self.num_units])
        return outputs, tuple(item[-1] for item in history)

    def _state(self, given: Any, inputs: Tensor) -> Any:
        if given is None:
            return tf.zeros([tf.shape(inputs)[1], self.num_units], self.dtype)
        return tf.convert_to_tensor(given, self.dtype)


def _activation(given: Any, refused: Sequence[str]) -> Callable[[Any], Any]:
    name = given if isinstance(given, str) else getattr(given, "__name__", str(given))
    valid = [item for item in _ACTIVATIONS if item not in refused]
    if name not in valid:
        raise ValueError(
            f"The activation {name!r} is not supported; valid are {', '.join(valid)}."
        )
    return _ACTIVATIONS[name]
