"""`keras.ipu.layers`, and the layers that `ipu.keras.layers` had in SDK 1.4."""

from ipu_runtime.addons.keras.layers import (
    GRU,
    LSTM,
    Dropout,
    Embedding,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    LayerNormalization,
    PopnnGRU,
    PopnnLSTM,
    SerialDense,
)
from ipu_runtime.keras.layers.capture_upstream_gradients import (
    CaptureActivationGradients,
    CaptureUpstreamGradients,
)

__all__ = [
    "GRU",
    "LSTM",
    "CaptureActivationGradients",
    "CaptureUpstreamGradients",
    "Dropout",
    "Embedding",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
    "LayerNormalization",
    "PopnnGRU",
    "PopnnLSTM",
    "SerialDense",
]
