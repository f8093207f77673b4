"""Recurrent layers as the IPU has them: the stock ones with fewer settings."""

from __future__ import annotations

from typing import Any

from ipu_runtime.addons.keras.layers.refusal import refuse
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.installing.signatures import with_arguments_of
from ipu_runtime.ops import nn_ops
from ipu_runtime.system.without_effect import warn_without_effect

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
    "available_memory_proportion_fwd",
    "available_memory_proportion_bwd",
    "options",
    "options_bwd",
)
_ACTIVATIONS = ("tanh", "relu", "softmax", "sigmoid", "hard_sigmoid")
_RECURRENT_ACTIVATIONS = tuple(name for name in _ACTIVATIONS if name != "relu")
_DIFFERENT: dict[str, Any] = {"hard_sigmoid": nn_ops.hard_sigmoid}
"""What Keras 3 computes otherwise than the device."""


class _DeviceRecurrent:
    """What LSTM and GRU of the IPU have in common."""

    def __init__(
        self,
        units: int,
        activation: Any,
        recurrent_activation: Any,
        use_bias: bool,
        **kwargs: Any,
    ) -> None:
        kind = type(self).__name__
        if not use_bias:
            raise ValueError(f"{kind}: `use_bias=False` is not supported on the IPU.")
        refuse(kind, {name: kwargs.pop(name, None) for name in _UNSUPPORTED})
        inner = _checked_name(kind, "activation", activation, _ACTIVATIONS)
        recurrent = _checked_name(
            kind, "recurrent_activation", recurrent_activation, _RECURRENT_ACTIVATIONS
        )
        dtype = kwargs.get("dtype")
        if _variable_dtype(dtype) not in ("float16", "float32"):
            raise ValueError(
                f"{kind}: dtype must be float16 or float32, not {dtype!r}."
            )
        kwargs.pop("implementation", None)
        partials = keras.backend.standardize_dtype(kwargs.pop("partials_dtype"))
        device_only = {name: (kwargs.pop(name, None), None) for name in _DEVICE_ONLY}
        warn_without_effect(kind, partials_dtype=(partials, "float32"), **device_only)
        dropout_seed, seed = kwargs.pop("dropout_seed"), kwargs.pop("seed")
        super().__init__(  # type: ignore[call-arg]
            units,
            activation=_DIFFERENT.get(inner, inner),
            recurrent_activation=_DIFFERENT.get(recurrent, recurrent),
            seed=_single_seed(seed if dropout_seed is None else dropout_seed),
            **kwargs,
        )
        self._activation_names = {
            "activation": inner,
            "recurrent_activation": recurrent,
        }

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
        kept = {key: value for key, value in config.items() if key not in _UNSUPPORTED}
        return {**kept, **self._activation_names}


class LSTM(_DeviceRecurrent, keras.layers.LSTM):
    """The same function as Keras' LSTM."""

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        dropout_seed: Any = None,
        recurrent_dropout: float = 0.0,
        implementation: int = 2,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        partials_dtype: Any = "float32",
        seed: Any = None,
        time_major: bool = False,
        available_memory_proportion_fwd: float | None = None,
        available_memory_proportion_bwd: float | None = None,
        **kwargs: Any,
    ) -> None:
        given = {**locals(), **kwargs}
        for name in ("self", "__class__", "kwargs"):
            del given[name]
        super().__init__(**given)


class GRU(_DeviceRecurrent, keras.layers.GRU):
    """The same function as Keras' GRU."""

    @with_arguments_of(LSTM.__init__, without=("unit_forget_bias",), after="unroll")
    def __init__(self, reset_after: bool = True, **arguments: Any) -> None:
        super().__init__(reset_after=reset_after, **arguments)


def _checked_name(kind: str, name: str, value: Any, allowed: tuple[str, ...]) -> str:
    word = value if isinstance(value, str) else getattr(value, "__name__", str(value))
    if word not in allowed:
        raise ValueError(
            f"{kind}: {name} {word!r} is not supported; valid are {', '.join(allowed)}."
        )
    return word


def _variable_dtype(dtype: Any) -> str:
    named = getattr(dtype, "name", dtype)
    return str(keras.dtype_policies.get(named).variable_dtype)


def _single_seed(seed: Any) -> int | None:
    """Return one number for Keras: the device takes a pair."""
    if seed is None or isinstance(seed, int):
        return seed
    first, second = seed
    return (int(first) * 1_000_003 + int(second)) % 2**31
