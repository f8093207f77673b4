"""`ipu_tensorflow_addons.keras.layers`: stock layers under the IPU's rules."""

from ipu_runtime.addons.keras.layers.ctc import (
    CTCInferenceLayer,
    CTCLoss,
    CTCPredictionsLayer,
)
from ipu_runtime.addons.keras.layers.effective_transformer import (
    EffectiveTransformer as EffectiveTransformer,
)
from ipu_runtime.addons.keras.layers.embedding import Embedding
from ipu_runtime.addons.keras.layers.normalization import (
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
)
from ipu_runtime.addons.keras.layers.recurrent import GRU, LSTM
from ipu_runtime.addons.keras.layers.simple_layers import (
    AssumeEqualAcrossReplicas,
    Dropout,
    RecomputationCheckpoint,
    SerialDense,
)

GroupNorm = GroupNormalization
InstanceNorm = InstanceNormalization
LayerNorm = LayerNormalization
PopnnGRU = GRU
PopnnLSTM = LSTM

__all__ = [
    "GRU",
    "LSTM",
    "AssumeEqualAcrossReplicas",
    "CTCInferenceLayer",
    "CTCLoss",
    "CTCPredictionsLayer",
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
