"""Place updates where their variables are: no effect on results."""

from __future__ import annotations

from ipu_runtime.frameworks.types import Optimizer
from ipu_runtime.optimizers.ipu_optimizer import IpuOptimizer


class ShardedOptimizer(IpuOptimizer):
    """Updates every variable on the IPU that holds it."""

    def __init__(self, optimizer: Optimizer) -> None:
        super().__init__(optimizer, "ShardedOptimizer")
