"""`keras.layers.experimental`, where Keras 2 kept layers that were new."""

from __future__ import annotations

from ipu_runtime.compat.habits import hint
from ipu_runtime.compat.layers_experimental import preprocessing

__all__ = ["preprocessing"]

hint("layers.experimental.preprocessing")
