"""`ipu_tensorflow_addons.keras.optimizers`: equal to the stock ones in float32."""

from __future__ import annotations

from typing import Any

import keras


class SGDIpuOptimizer(keras.optimizers.SGD):
    """SGD whose momentum the device can keep in another type."""

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        momentum_accum_dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        del momentum_accum_dtype  # The host keeps it in the variables' type.
        super().__init__(
            learning_rate, momentum=momentum, nesterov=nesterov, name=name, **kwargs
        )


class AdamIpuOptimizer(keras.optimizers.Adam):
    """Adam whose moments the device can keep in other types."""

    def __init__(
        self, learning_rate: Any = 0.001, name: str = "Adam", **kwargs: Any
    ) -> None:
        for option in ("m_dtype", "v_dtype", "vhat_dtype", "debiasing", "outline"):
            kwargs.pop(option, None)
        super().__init__(learning_rate, name=name, **kwargs)
