"""Place updates where their variables are: no effect on results."""

from __future__ import annotations

from typing import Any

from ipu_runtime.optimizers.ipu_optimizer import IpuOptimizer


class ShardedOptimizer(IpuOptimizer):
    """Updates every variable on the IPU that holds it."""

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer, "ShardedOptimizer")
