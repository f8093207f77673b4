"""A dense layer whose matrix product the IPU cuts into pieces."""

from __future__ import annotations

from typing import Any

import keras

_DIMENSIONS = ("input_columns", "input_rows_kernel_columns", "kernel_rows")


class SerialDense(keras.layers.Dense):
    """Equal to Dense; the pieces only save memory on the device."""

    def __init__(
        self,
        units: int,
        serialization_factor: int,
        serialization_dimension: str,
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
        super().__init__(units, **kwargs)
        self.serialization_factor = serialization_factor
        self.serialization_dimension = serialization_dimension

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        return {
            **super().get_config(),
            "serialization_factor": self.serialization_factor,
            "serialization_dimension": self.serialization_dimension,
        }
