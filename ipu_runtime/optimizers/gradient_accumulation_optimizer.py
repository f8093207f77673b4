"""Update the weights once for several mini-batches."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.engine.collectives import all_reduce
from ipu_runtime.engine.device_loop import require_multiple_of
from ipu_runtime.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_runtime.optimizers.cross_replica_optimizer import CrossReplicaOptimizer
from ipu_runtime.optimizers.ipu_optimizer import GradientsAndVariables, IpuOptimizer

Reduction = GradientAccumulationReductionMethod


class GradientAccumulationOptimizerV2(IpuOptimizer):
    """Accumulates gradients and updates at every n-th mini-batch of a loop.

    Options about where accumulators live have no effect on results.
    """

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool = False,
        dtype: Any = None,
        reduction_method: Reduction | str = Reduction.SUM,
        name: str = "GradientAccumulationOptimizerV2",
    ) -> None:
        del offload_weight_update_variables, replicated_optimizer_state_sharding
        super().__init__(opt, name)
        if num_mini_batches < 1:
            raise ValueError(
                f"num_mini_batches is {num_mini_batches}; it must be at least 1."
            )
        self._count = num_mini_batches
        self._dtype = dtype
        self._reduction = Reduction.parse(reduction_method)

    def apply_gradients(
        self,
        grads_and_vars: GradientsAndVariables,
        global_step: Any = None,
        name: str | None = None,
    ) -> Any:
        """Accumulate; at the last mini-batch of a group update and start anew."""
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        if self._count == 1:
            return self._update(pairs, global_step, name)
        require_multiple_of(self._count)
        counter = _state("accumulated_mini_batches", [], tf.int32)
        index = counter.read_value()
        accumulators = [
            _state(f"{v.op.name}/accumulator", v.shape, self._dtype_of(v))
            for _, v in pairs
        ]
        with tf.control_dependencies([index]):
            adding = [
                self._accumulate(accumulator, gradient, index)
                for accumulator, (gradient, _) in zip(accumulators, pairs, strict=True)
            ]

        def update() -> Any:
            sums = [
                (tf.cast(accumulator.read_value(), variable.dtype), variable)
                for accumulator, (_, variable) in zip(accumulators, pairs, strict=True)
            ]
            done = self._update(sums, global_step, name)
            with tf.control_dependencies([done]):
                clearing = [item.assign(tf.zeros_like(item)) for item in accumulators]
            with tf.control_dependencies(clearing):
                return tf.constant(0)

        with tf.control_dependencies(adding):
            following = tf.cond(
                tf.equal(index + 1, self._count), update, lambda: index + 1
            )
        return counter.assign(following, read_value=False)

    def _update(self, pairs: Any, global_step: Any, name: str | None) -> Any:
        return self._opt.apply_gradients(pairs, global_step, name)

    def _dtype_of(self, variable: Any) -> Any:
        dtype = self._dtype(variable) if callable(self._dtype) else self._dtype
        return dtype or variable.dtype.base_dtype

    def _accumulate(self, accumulator: Any, gradient: Any, index: Any) -> Any:
        gradient = tf.cast(tf.convert_to_tensor(gradient), accumulator.dtype)
        if self._reduction is Reduction.RUNNING_MEAN:
            share = 1 / (tf.cast(index, accumulator.dtype) + 1)
            change = (gradient - accumulator.read_value()) * share
            return accumulator.assign_add(change, read_value=False)
        if self._reduction is Reduction.MEAN:
            gradient /= self._count
        return accumulator.assign_add(gradient, read_value=False)


class CrossReplicaGradientAccumulationOptimizerV2(GradientAccumulationOptimizerV2):
    """Accumulates, averages over replicas, then updates."""

    def __init__(self, opt: Any, num_mini_batches: int, *args: Any, **kw: Any) -> None:
        super().__init__(opt, num_mini_batches, *args, **kw)

    def _update(self, pairs: Any, global_step: Any, name: str | None) -> Any:
        averaged = [(all_reduce(gradient, "mean"), var) for gradient, var in pairs]
        return super()._update(averaged, global_step, name)


class GradientAccumulationOptimizer(GradientAccumulationOptimizerV2):
    """The older form: sums, and only for gradient descent and momentum."""

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        verify_usage: bool = True,
        name: str = "GradientAccumulationOptimizer",
    ) -> None:
        del verify_usage
        kinds = (
            tf.compat.v1.train.GradientDescentOptimizer,
            tf.compat.v1.train.MomentumOptimizer,
        )
        inner = opt.wrapped if isinstance(opt, CrossReplicaOptimizer) else opt
        if not isinstance(inner, kinds):
            raise ValueError(
                "GradientAccumulationOptimizer supports GradientDescentOptimizer and "
                f"MomentumOptimizer only, but got {type(opt).__name__}; "
                "GradientAccumulationOptimizerV2 takes any."
            )
        super().__init__(opt, num_mini_batches, name=name)


class CrossReplicaGradientAccumulationOptimizer(GradientAccumulationOptimizer):
    """The older form with an average over replicas."""

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        verify_usage: bool = True,
        name: str = "CrossReplicaGradientAccumulationOptimizer",
    ) -> None:
        super().__init__(
            CrossReplicaOptimizer(opt), num_mini_batches, verify_usage, name
        )


def _state(name: str, shape: Any, dtype: Any) -> Any:
    """Return a new variable that starts with zeros."""
    return tf.compat.v1.Variable(
        lambda: tf.zeros(shape, dtype), trainable=False, name=name, use_resource=True
    )
