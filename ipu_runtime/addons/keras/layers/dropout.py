"""Dropout as the IPU has it: its seed is a pair."""

from __future__ import annotations

from typing import Any

import keras


class Dropout(keras.layers.Dropout):
    """Keras' dropout with a seed of two whole numbers."""

    def __init__(
        self, rate: float, noise_shape: Any = None, seed: Any = None, **kwargs: Any
    ) -> None:
        if seed is not None and not isinstance(seed, int):
            first, second = seed
            seed = (int(first) * 1_000_003 + int(second)) % 2**31
        super().__init__(rate, noise_shape=noise_shape, seed=seed, **kwargs)
