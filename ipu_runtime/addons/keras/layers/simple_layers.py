"""Layers that compute what stock ones compute; the rest only concerns the device."""

from __future__ import annotations

from typing import Any

from ipu_runtime.frameworks.keras_api import keras

_DIMENSIONS = ("input_columns", "input_rows_kernel_columns", "kernel_rows")


class SerialDense(keras.layers.Dense):
    """Equal to Dense; the pieces of its product only save memory on the device."""

    def __init__(
        self,
        units: int,
        serialization_factor: int,
        serialization_dimension: str,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        if serialization_factor < 1:
            raise ValueError(
                f"serialization_factor must be 1 or more, not {serialization_factor}."
            )
        if serialization_dimension not in _DIMENSIONS:
            raise ValueError(
                f"serialization_dimension must be one of {', '.join(_DIMENSIONS)}, not "
                f"{serialization_dimension!r}."
            )
        super().__init__(
            units,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            **kwargs,
        )
        self.serialization_factor = serialization_factor
        self.serialization_dimension = serialization_dimension

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        return {
            **super().get_config(),
            "serialization_factor": self.serialization_factor,
            "serialization_dimension": self.serialization_dimension,
        }


class Dropout(keras.layers.Dropout):
    """Keras' dropout with a seed of two whole numbers, as the IPU has it."""

    def __init__(
        self, rate: float, noise_shape: Any = None, seed: Any = None, **kwargs: Any
    ) -> None:
        if seed is not None and not isinstance(seed, int):
            first, second = seed
            seed = (int(first) * 1_000_003 + int(second)) % 2**31
        super().__init__(rate, noise_shape=noise_shape, seed=seed, **kwargs)


class _Identity(keras.layers.Layer):
    """Returns what it gets, in the same structure."""

    def call(self, inputs: Any) -> Any:
        """Return the inputs."""
        return keras.tree.map_structure(keras.ops.copy, inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shapes of the inputs."""
        return input_shape

    def build(self, input_shape: Any) -> None:
        """There is nothing to build."""
        self.built = True


class RecomputationCheckpoint(_Identity):
    """Marks values that are stored rather than computed again."""


class AssumeEqualAcrossReplicas(_Identity):
    """Marks values that are equal on all replicas; a copy has the same ones."""

    def __init__(self, inplace: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inplace = inplace

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        return {**super().get_config(), "inplace": self.inplace}
