"""`keras.layers.experimental`, where Keras 2 kept layers that were new."""

from __future__ import annotations

from ipu_runtime.compat.habits import hint
from ipu_runtime.frameworks.keras_api import keras

__all__ = ["preprocessing"]

# They are layers like others today.
preprocessing = keras.layers

hint("layers.experimental.preprocessing")
