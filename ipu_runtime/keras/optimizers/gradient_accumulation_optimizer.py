"""Update the weights once for several mini-batches, in the optimizer itself."""

from __future__ import annotations

from typing import Any

from ipu_runtime.engine.build.programs.accumulation import Accumulation
from ipu_runtime.engine.describe.model_options import (
    GradientAccumulationReductionMethod,
)
from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.frameworks.keras_api import keras, ops
from ipu_runtime.frameworks.keras_optimizers import trained_variables
from ipu_runtime.keras.optimizers.wrapped_optimizer import WrappedOptimizer
from ipu_runtime.plan.rules.count_rules import ACCUMULATION, check_positive

_Method = GradientAccumulationReductionMethod


@keras.saving.register_keras_serializable("ipu_runtime")
class GradientAccumulationOptimizer(WrappedOptimizer):
    """Gives the inner optimizer the reduced gradients of `num_mini_batches` steps."""

    def __new__(cls, opt: Any, num_mini_batches: int, *_: Any, **__: Any) -> Any:
        """Return `opt` itself where there is nothing to accumulate."""
        raise_for(check_positive("num_mini_batches", num_mini_batches, ACCUMULATION))
        return opt if num_mini_batches == 1 else super().__new__(cls)

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: Any = None,
        reduction_method: _Method | str = _Method.SUM,
        name: str = "GradientAccumulationOptimizer",
    ) -> None:
        # Both only say where the device keeps its state.
        del offload_weight_update_variables, replicated_optimizer_state_sharding
        super().__init__(opt, name)
        self._accumulation = Accumulation(
            _Method.parse(reduction_method), num_mini_batches, replicas=1, dtype=dtype
        )

    def build(self, variables: Any) -> None:
        """Make the accumulators besides the inner optimizer's variables."""
        super().build(variables)
        self._seen = self.add_variable((), dtype="int32", name="mini_batches")
        self._sums = [
            self.add_variable(
                variable.shape,
                dtype=self._accumulation.type_for(variable).name,
                name="accumulator",
            )
            for variable in variables
        ]

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Accumulate, and update the variables with every last mini-batch."""
        self._ensure_built(trainable_variables)
        sums = [total.value for total in self._sums]
        added = self._accumulation.add(sums, grads, self._seen.value)
        for total, value in zip(self._sums, added, strict=True):
            total.assign(value)
        self._seen.assign_add(1)

        def update() -> None:
            self.inner.apply(
                [
                    None if gradient is None else ops.cast(total, variable.dtype)
                    for total, gradient, variable in zip(
                        self._sums, grads, trained_variables(self), strict=True
                    )
                ],
                trainable_variables,
            )
            for total in self._sums:
                total.assign(ops.zeros_like(total))
            self._seen.assign(0)

        last = ops.equal(self._seen, self._accumulation.micro_batches)
        ops.cond(last, update, lambda: None)

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        return {
            **super().get_config(),
            "num_mini_batches": self._accumulation.micro_batches,
            "reduction_method": self._accumulation.method.name,
        }
