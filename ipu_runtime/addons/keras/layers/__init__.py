"""`ipu_tensorflow_addons.keras.layers`: stock layers under the IPU's rules."""

from ipu_runtime.addons.keras.layers.dense import SerialDense
from ipu_runtime.addons.keras.layers.dropout import Dropout
from ipu_runtime.addons.keras.layers.embedding import Embedding
from ipu_runtime.addons.keras.layers.identities import (
    AssumeEqualAcrossReplicas,
    RecomputationCheckpoint,
)
from ipu_runtime.addons.keras.layers.normalization import (
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
)
from ipu_runtime.addons.keras.layers.recurrent import GRU, LSTM

GroupNorm = GroupNormalization
InstanceNorm = InstanceNormalization
LayerNorm = LayerNormalization
PopnnGRU = GRU
PopnnLSTM = LSTM

__all__ = [
    "GRU",
    "LSTM",
    "AssumeEqualAcrossReplicas",
    "Dropout",
    "Embedding",
    "GroupNorm",
    "GroupNormalization",
    "InstanceNorm",
    "InstanceNormalization",
    "LayerNorm",
    "LayerNormalization",
    "PopnnGRU",
    "PopnnLSTM",
    "RecomputationCheckpoint",
    "SerialDense",
]
