"""`keras.optimizer_v2.optimizer_v2`: the base class is Keras 3's own."""

from __future__ import annotations

from ipu_runtime.frameworks.keras_api import keras

OptimizerV2 = keras.optimizers.Optimizer
