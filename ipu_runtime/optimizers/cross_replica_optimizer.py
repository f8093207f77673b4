"""Average gradients over replicas before the update."""

from __future__ import annotations

from typing import Any

from ipu_runtime.engine.build.replicas.collectives import all_reduce_together
from ipu_runtime.frameworks.types import Optimizer
from ipu_runtime.optimizers.ipu_optimizer import GradientsAndVariables, IpuOptimizer
from ipu_runtime.strategies.replica_reductions import gradients_averaged


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
        return apply_means(self._opt, grads_and_vars, global_step, name)


def apply_means(
    optimizer: Optimizer,
    grads_and_vars: GradientsAndVariables,
    global_step: Any,
    name: str | None,
) -> Any:
    """Let an optimizer update with the means of all replicas' gradients."""
    pairs = list(grads_and_vars)
    means = all_reduce_together([gradient for gradient, _ in pairs], "mean")
    averaged = [(mean, pair[1]) for mean, pair in zip(means, pairs, strict=True)]
    with gradients_averaged():
        return optimizer.apply_gradients(averaged, global_step, name)
