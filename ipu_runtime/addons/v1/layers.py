"""`ipu_tensorflow_addons.v1.layers`: the recurrent layers."""

from ipu_runtime.addons.layers import (
    PopnnAUGRU,
    PopnnDynamicGRU,
    PopnnDynamicLSTM,
    PopnnGRU,
    PopnnLSTM,
)

__all__ = [
    "PopnnAUGRU",
    "PopnnDynamicGRU",
    "PopnnDynamicLSTM",
    "PopnnGRU",
    "PopnnLSTM",
]
