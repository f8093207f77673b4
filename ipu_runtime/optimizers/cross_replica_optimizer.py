"""Average gradients over replicas before the update."""

from __future__ import annotations

from typing import Any

from ipu_runtime.engine.collectives import all_reduce
from ipu_runtime.optimizers.ipu_optimizer import GradientsAndVariables, IpuOptimizer


class CrossReplicaOptimizer(IpuOptimizer):
    """Gives the wrapped optimizer the mean of all replicas' gradients."""

    def __init__(self, opt: Any, name: str = "CrossReplicaOptimizer") -> None:
        super().__init__(opt, name)

    def apply_gradients(
        self,
        grads_and_vars: GradientsAndVariables,
        global_step: Any = None,
        name: str | None = None,
    ) -> Any:
        """Average, then update; variables without a gradient are left alone."""
        averaged = [
            (None if gradient is None else all_reduce(gradient, "mean"), variable)
            for gradient, variable in grads_and_vars
        ]
        return self._opt.apply_gradients(averaged, global_step, name)
