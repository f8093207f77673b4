"""Update the weights once for several mini-batches, in the optimizer itself."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from ipu_runtime.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_runtime.keras.optimizers.loss_scaling import ALSOptimizer
from ipu_runtime.keras.optimizers.wrapped import WrappedOptimizer

_Method = GradientAccumulationReductionMethod


class GradientAccumulationOptimizer(WrappedOptimizer):
    """Gives the inner optimizer the reduced gradients of `num_mini_batches` steps."""

    def __new__(cls, opt: Any, num_mini_batches: int, *_: Any, **__: Any) -> Any:
        """Return `opt` itself where there is nothing to accumulate."""
        if num_mini_batches < 1:
            raise ValueError(
                f"num_mini_batches must be 1 or more, but it is {num_mini_batches}."
            )
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
        self.num_mini_batches = num_mini_batches
        self.reduction_method = _Method.parse(reduction_method)
        self.accumulator_dtype = dtype

    def build(self, variables: Any) -> None:
        """Make the accumulators besides the inner optimizer's variables."""
        super().build(variables)
        self._seen = self.add_variable((), dtype="int32", name="mini_batches")
        self._sums = [
            self.add_variable(
                variable.shape, dtype=self._dtype_for(variable), name="accumulator"
            )
            for variable in variables
        ]

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Accumulate, and update the variables with every last mini-batch."""
        self._ensure_built(trainable_variables)
        seen = ops.cast(self._seen, "float32")
        for total, gradient in zip(self._sums, grads, strict=True):
            if gradient is not None:
                total.assign(self._added(total, ops.cast(gradient, total.dtype), seen))
        self._seen.assign_add(1)

        def update() -> None:
            self.inner.apply(
                [
                    None if gradient is None else ops.cast(total, variable.dtype)
                    for total, gradient, variable in zip(
                        self._sums, grads, self._trainable_variables, strict=True
                    )
                ],
                trainable_variables,
            )
            for total in self._sums:
                total.assign(ops.zeros_like(total))
            self._seen.assign(0)

        ops.cond(ops.equal(self._seen, self.num_mini_batches), update, lambda: None)

    def _added(self, total: Any, gradient: Any, seen: Any) -> Any:
        if self.reduction_method is _Method.SUM:
            return total + gradient
        if self.reduction_method is _Method.MEAN:
            return total + gradient / self.num_mini_batches
        kept = ops.cast(seen / (seen + 1.0), total.dtype)
        share = ops.cast(1.0 / (seen + 1.0), total.dtype)
        return total * kept + gradient * share

    def _dtype_for(self, variable: Any) -> Any:
        chosen = self.accumulator_dtype
        chosen = chosen(variable) if callable(chosen) else chosen
        if chosen is None:
            return variable.dtype
        return keras.backend.standardize_dtype(chosen)

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        return {
            **super().get_config(),
            "num_mini_batches": self.num_mini_batches,
            "reduction_method": self.reduction_method.name,
        }


class ALSGradientAccumulationOptimizer(GradientAccumulationOptimizer):
    """Accumulates around an optimizer with automatic loss scaling."""

    def __new__(cls, opt: Any, num_mini_batches: int, *_: Any, **__: Any) -> Any:
        """Refuse other optimizers."""
        if not isinstance(opt, ALSOptimizer):
            raise ValueError(f"`opt` must be an ALSOptimizer, not {opt!r}.")
        return super().__new__(cls, opt, num_mini_batches)
