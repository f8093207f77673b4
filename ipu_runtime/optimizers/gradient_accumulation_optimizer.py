"""Update the weights once for several mini-batches."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.programs.accumulation import Accumulation
from ipu_runtime.engine.build.replicas.device_loop import require_multiple_of
from ipu_runtime.engine.describe.model_options import (
    GradientAccumulationReductionMethod,
)
from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.installing.signatures import with_arguments_of
from ipu_runtime.optimizers.cross_replica_optimizer import (
    CrossReplicaOptimizer,
    apply_means,
)
from ipu_runtime.optimizers.ipu_optimizer import (
    GradientsAndVariables,
    IpuOptimizer,
    check_gradient_types,
)
from ipu_runtime.plan.rules.count_rules import ACCUMULATION, check_positive

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
        raise_for(check_positive("num_mini_batches", num_mini_batches, ACCUMULATION))
        self._accumulation = Accumulation(
            Reduction.parse(reduction_method), num_mini_batches, replicas=1, dtype=dtype
        )

    def apply_gradients(
        self,
        grads_and_vars: GradientsAndVariables,
        global_step: Any = None,
        name: str | None = None,
    ) -> Any:
        """Accumulate; at the last mini-batch of a group update and start anew."""
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        count = self._accumulation.micro_batches
        if count == 1:
            return self._update(pairs, global_step, name)
        require_multiple_of(count, sums=self._accumulation.method.sums)
        counter = _state("accumulated_mini_batches", [], tf.int32)
        index = counter.read_value()
        accumulators = [
            _state(f"{v.op.name}/accumulator", v.shape, self._accumulation.type_for(v))
            for _, v in pairs
        ]
        with tf.control_dependencies([index]):
            sums = self._accumulation.add(
                [accumulator.read_value() for accumulator in accumulators],
                [gradient for gradient, _ in pairs],
                index,
            )
            adding = [
                accumulator.assign(total, read_value=False)
                for accumulator, total in zip(accumulators, sums, strict=True)
            ]

        def update() -> Any:
            reduced = [
                (accumulator.read_value(), variable)
                for accumulator, (_, variable) in zip(accumulators, pairs, strict=True)
            ]
            check_gradient_types(self, reduced)
            done = self._update(reduced, global_step, name)
            with tf.control_dependencies([done]):
                clearing = [item.assign(tf.zeros_like(item)) for item in accumulators]
            with tf.control_dependencies(clearing):
                return tf.constant(0)

        with tf.control_dependencies(adding):
            following = tf.cond(tf.equal(index + 1, count), update, lambda: index + 1)
        return counter.assign(following, read_value=False)

    def _update(self, pairs: Any, global_step: Any, name: str | None) -> Any:
        return self._opt.apply_gradients(pairs, global_step, name)


class CrossReplicaGradientAccumulationOptimizerV2(GradientAccumulationOptimizerV2):
    """Accumulates, averages over replicas, then updates."""

    @with_arguments_of(
        GradientAccumulationOptimizerV2.__init__,
        name="CrossReplicaGradientAccumulationOptimizerV2",
    )
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)

    def _update(self, pairs: Any, global_step: Any, name: str | None) -> Any:
        return apply_means(self._opt, pairs, global_step, name)


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
    base = tf.as_dtype(dtype).base_dtype
    return tf.compat.v1.Variable(
        lambda: tf.zeros(shape, base), trainable=False, name=name, use_resource=True
    )
