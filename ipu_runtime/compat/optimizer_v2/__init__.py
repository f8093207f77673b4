"""`keras.optimizer_v2`, the package that held the optimizers of Keras 2."""

from __future__ import annotations

from typing import Any

from ipu_runtime.compat.habits import gone_module, hint

hint("keras.optimizer_v2")


def __getattr__(name: str) -> Any:
    return gone_module("keras.optimizer_v2", name)
