"""Optimizers around another one have all that an optimizer of TensorFlow 1 has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from ipu_runtime import ipu_compiler, loops, optimizers, scopes
from tests.runtime.ops.replicated import configure

pytestmark = pytest.mark.slow
v1 = tf.compat.v1

WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "IpuOptimizer": optimizers.IpuOptimizer,
    "CrossReplicaOptimizer": optimizers.CrossReplicaOptimizer,
    "ShardedOptimizer": optimizers.ShardedOptimizer,
    "MapGradientOptimizer": lambda opt: optimizers.MapGradientOptimizer(
        opt, lambda gradient, _: gradient
    ),
    **{
        name: lambda opt, name=name: getattr(optimizers, name)(opt, 2)  # type: ignore[misc]
        for name in (
            "GradientAccumulationOptimizer",
            "GradientAccumulationOptimizerV2",
            "CrossReplicaGradientAccumulationOptimizer",
            "CrossReplicaGradientAccumulationOptimizerV2",
        )
    },
}


def _train(wrapper: str, update: Callable[[Any, Any, Any], Any]) -> dict[str, Any]:
    """Run four steps of a loss whose gradient is 3; returns what the host sees."""
    configure(1)
    with tf.Graph().as_default():
        opt = WRAPPERS[wrapper](v1.train.MomentumOptimizer(0.1, 0.5))
        variables = []

        def step() -> Any:
            weight = v1.get_variable("w", initializer=1.0, use_resource=True)
            variables.append(weight)
            return update(opt, 3 * weight, v1.train.get_or_create_global_step())

        with scopes.ipu_scope("/device:IPU:0"):
            program = ipu_compiler.compile(lambda: loops.repeat(4, step))
        (weight,) = variables
        assert opt.get_name() == wrapper
        assert opt.get_slot_names() == ["momentum"]
        assert opt.variables() == [opt.get_slot(weight, "momentum")]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(program)
            return {
                "weight": session.run(weight),
                "momentum": session.run(opt.get_slot(weight, "momentum")),
                "steps": session.run(v1.train.get_global_step()),
            }


def _expected(wrapper: str) -> dict[str, float]:
    every = 2 if "Accumulation" in wrapper else 1
    weight, momentum = 1.0, 0.0
    for _ in range(4 // every):
        momentum = 0.5 * momentum + 3 * every
        weight -= 0.1 * momentum
    return {"weight": weight, "momentum": momentum, "steps": 4 // every}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_every_wrapper_minimizes_and_shows_its_slots(wrapper: str) -> None:
    seen = _train(wrapper, lambda opt, loss, step: opt.minimize(loss, step))
    assert seen == pytest.approx(_expected(wrapper), rel=1e-6)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_gradients_can_be_computed_and_applied_apart(wrapper: str) -> None:
    def halved(opt: Any, loss: Any, step: Any) -> Any:
        pairs = opt.compute_gradients(
            loss, v1.trainable_variables(), opt.GATE_OP, grad_loss=tf.constant(2.0)
        )
        return opt.apply_gradients([(g / 2, v) for g, v in pairs], step, "applied")

    seen = _train(wrapper, halved)
    assert seen == pytest.approx(_expected(wrapper), rel=1e-6)
