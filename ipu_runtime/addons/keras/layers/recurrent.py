"""Recurrent layers as the IPU has them: the stock ones with fewer settings."""

from __future__ import annotations

from typing import Any

import keras

from ipu_runtime.addons.keras.layers.refusal import refuse

_UNSUPPORTED = (
    "kernel_regularizer",
    "recurrent_regularizer",
    "bias_regularizer",
    "activity_regularizer",
    "kernel_constraint",
    "recurrent_constraint",
    "bias_constraint",
    "recurrent_dropout",
    "go_backwards",
    "unroll",
    "time_major",
)
_DEVICE_ONLY = (
    "partials_dtype",
    "available_memory_proportion_fwd",
    "available_memory_proportion_bwd",
    "options",
    "options_bwd",
)
_ACTIVATIONS = ("tanh", "relu", "softmax", "sigmoid", "hard_sigmoid")
_RECURRENT_ACTIVATIONS = tuple(name for name in _ACTIVATIONS if name != "relu")


class _DeviceRecurrent:
    """What LSTM and GRU of the IPU have in common."""

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        **kwargs: Any,
    ) -> None:
        kind = type(self).__name__
        if not use_bias:
            raise ValueError(f"{kind}: `use_bias=False` is not supported on the IPU.")
        refuse(kind, {name: kwargs.pop(name, None) for name in _UNSUPPORTED})
        _check_activation(kind, "activation", activation, _ACTIVATIONS)
        _check_activation(
            kind, "recurrent_activation", recurrent_activation, _RECURRENT_ACTIVATIONS
        )
        dtype = kwargs.get("dtype")
        if _variable_dtype(dtype) not in ("float16", "float32"):
            raise ValueError(
                f"{kind}: dtype must be float16 or float32, not {dtype!r}."
            )
        for name in (*_DEVICE_ONLY, "implementation"):
            kwargs.pop(name, None)
        seed = kwargs.pop("dropout_seed", None)
        seed = kwargs.pop("seed", None) if seed is None else seed
        super().__init__(  # type: ignore[call-arg]
            units,
            activation=activation,
            recurrent_activation=recurrent_activation,
            seed=_single_seed(seed),
            **kwargs,
        )

    def call(
        self,
        sequences: Any,
        mask: Any = None,
        training: Any = None,
        initial_state: Any = None,
    ) -> Any:
        """Run over a sequence; no initial state means zeros."""
        if mask is not None:
            raise ValueError(f"{type(self).__name__}: masks are not supported.")
        if len(sequences.shape) != 3:
            raise ValueError(
                f"The input of a {type(self).__name__} must have the shape [batch, "
                f"time, features], not {tuple(sequences.shape)}."
            )
        state = initial_state
        if isinstance(state, tuple):
            state = list(state)
        return super().call(  # type: ignore[misc]
            sequences, initial_state=state, training=bool(training)
        )

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        config = super().get_config()  # type: ignore[misc]
        return {key: value for key, value in config.items() if key not in _UNSUPPORTED}


class LSTM(_DeviceRecurrent, keras.layers.LSTM):
    """The same function as Keras' LSTM."""


class GRU(_DeviceRecurrent, keras.layers.GRU):
    """The same function as Keras' GRU."""


def _check_activation(
    kind: str, name: str, value: Any, allowed: tuple[str, ...]
) -> None:
    word = value if isinstance(value, str) else getattr(value, "__name__", str(value))
    if word not in allowed:
        raise ValueError(
            f"{kind}: {name} {word!r} is not supported; valid are {', '.join(allowed)}."
        )


def _variable_dtype(dtype: Any) -> str:
    named = getattr(dtype, "name", dtype)
    return str(keras.dtype_policies.get(named).variable_dtype)


def _single_seed(seed: Any) -> int | None:
    """Return one number for Keras: the device takes a pair."""
    if seed is None or isinstance(seed, int):
        return seed
    first, second = seed
    return (int(first) * 1_000_003 + int(second)) % 2**31
