"""Recurrent layers with time first: `ipu.ops.rnn_ops` of the SDKs 1 and 2.

One kernel holds the weights of inputs above those of the state. Its columns, and the
rows of the biases, are gate after gate: input, forget, candidate and output for the
LSTMs; update, reset and candidate for the GRUs.
"""

from ipu_runtime.ops.recurrent.gru import PopnnAUGRU, PopnnDynamicGRU, PopnnGRU
from ipu_runtime.ops.recurrent.lstm import PopnnDynamicLSTM, PopnnLSTM

__all__ = [
    "PopnnAUGRU",
    "PopnnDynamicGRU",
    "PopnnDynamicLSTM",
    "PopnnGRU",
    "PopnnLSTM",
]
