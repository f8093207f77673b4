"""Change every gradient before the update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu_runtime.optimizers.ipu_optimizer import IpuOptimizer


class MapGradientOptimizer(IpuOptimizer):
    """Applies a function to every gradient and its variable."""

    def __init__(
        self,
        wrapped_optimizer: Any,
        gradient_mapping_function: Callable[[Any, Any], Any],
        name: str = "MapGradientOptimizer",
    ) -> None:
        super().__init__(wrapped_optimizer, name)
        self.gradient_mapping_function = gradient_mapping_function

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Compute gradients, then map each."""
        return [
            (
                None
                if gradient is None
                else self.gradient_mapping_function(gradient, variable),
                variable,
            )
            for gradient, variable in self._opt.compute_gradients(*args, **kwargs)
        ]
