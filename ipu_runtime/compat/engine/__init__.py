"""`keras.engine`, the package where Keras 2 kept models and the base of layers."""

from __future__ import annotations

from typing import Any

from ipu_runtime.compat.habits import gone_module, hint

hint("keras.engine")


def __getattr__(name: str) -> Any:
    return gone_module("keras.engine", name)
