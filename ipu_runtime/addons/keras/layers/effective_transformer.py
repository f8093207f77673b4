"""A layer of the addons that is refused."""

from __future__ import annotations

from typing import Any


class EffectiveTransformer:
    """Attention over padded sequences, packed on the device; it is not emulated."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "EffectiveTransformer is not emulated; keras.layers.MultiHeadAttention "
            "with a mask computes attention over padded sequences."
        )
