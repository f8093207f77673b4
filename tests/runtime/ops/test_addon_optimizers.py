"""Optimizers of `ipu_tensorflow_addons` against the same sums in NumPy."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.addons.keras.layers import Embedding
from ipu_runtime.addons.keras.optimizers import (
    AdamIpuOptimizer,
    IpuOptimizerBase,
    LAMBIpuOptimizer,
    SGDIpuOptimizer,
)
from ipu_runtime.config import IPUConfig
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.keras.optimizers import GradientAccumulationOptimizer

pytestmark = pytest.mark.slow

_WEIGHTS = np.array([[1.0, -2.0, 3.0], [0.5, 0.25, -4.0]], np.float32)
_GRADIENTS = (
    np.array([[0.1, 0.0, -0.2], [0.3, -0.5, 0.7]], np.float32),
    np.array([[-0.4, 0.2, 0.1], [0.0, 0.1, -0.3]], np.float32),
    np.array([[0.9, -0.1, 0.2], [-0.2, 0.0, 0.4]], np.float32),
)


def _applied(optimizer: Any, weights: Any = _WEIGHTS) -> np.ndarray:
    variable = tf.Variable(weights, name="kernel")
    for gradient in _GRADIENTS:
        optimizer.apply_gradients([(tf.cast(gradient, variable.dtype), variable)])
    return variable.numpy()


def _moments(debiasing: bool) -> Any:
    """Yield the direction of every step of Adam with its defaults."""
    m = v = np.zeros_like(_WEIGHTS, np.float64)
    for step, gradient in enumerate(_GRADIENTS, start=1):
        m = 0.9 * m + 0.1 * gradient
        v = 0.999 * v + 0.001 * gradient.astype(np.float64) ** 2
        first = m / (1 - 0.9**step) if debiasing else m
        second = v / (1 - 0.999**step) if debiasing else v
        yield first, second


@pytest.mark.parametrize("debiasing", [True, False])
def test_adam_corrects_for_empty_moments_only_if_asked(debiasing: bool) -> None:
    expected = _WEIGHTS.astype(np.float64)
    for first, second in _moments(debiasing):
        expected = expected - 0.01 * first / (np.sqrt(second) + 1e-7)
    found = _applied(AdamIpuOptimizer(0.01, debiasing=debiasing))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_adam_with_amsgrad_keeps_the_highest_second_moment() -> None:
    expected, highest = _WEIGHTS.astype(np.float64), np.zeros_like(_WEIGHTS, np.float64)
    for first, second in _moments(debiasing=True):
        highest = np.maximum(highest, second)
        expected = expected - 0.01 * first / (np.sqrt(highest) + 1e-7)
    found = _applied(AdamIpuOptimizer(0.01, amsgrad=True))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def _lamb(
    debiasing: bool, decay: float, adapted: bool, clip: float = np.inf
) -> np.ndarray:
    weights = _WEIGHTS.astype(np.float64)
    for first, second in _moments(debiasing):
        update = first / (np.sqrt(second) + 1e-6) + decay * weights
        length = min(np.sqrt((weights**2).sum()), clip)
        ratio = length / np.sqrt((update**2).sum()) if adapted else 1.0
        weights = weights - 0.01 * ratio * update
    return weights


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, _lamb(True, 0.0, True)),
        ({"debiasing": False}, _lamb(False, 0.0, True)),
        ({"weight_decay_rate": 0.1}, _lamb(True, 0.1, True)),
        ({"weight_norm_clip": 1.5}, _lamb(True, 0.0, True, clip=1.5)),
        (
            {"weight_decay_rate": 0.1, "exclude_from_weight_decay": ["bias", "ker"]},
            _lamb(True, 0.0, True),
        ),
        ({"exclude_from_layer_adaptation": ["kernel"]}, _lamb(True, 0.0, False)),
    ],
)
def test_lamb_by_hand(settings: dict[str, Any], expected: np.ndarray) -> None:
    found = _applied(LAMBIpuOptimizer(0.01, **settings))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_lamb_of_zero_weights_takes_the_plain_step() -> None:
    found = _applied(LAMBIpuOptimizer(0.01), np.zeros((2, 3), np.float32))
    assert np.isfinite(found).all()
    assert np.abs(found).max() > 0


def test_lamb_needs_two_precisions() -> None:
    with pytest.raises(ValueError, match="optimizer_compute_precisions"):
        LAMBIpuOptimizer(optimizer_compute_precisions=(tf.float32,))


@pytest.mark.parametrize("nesterov", [True, False])
def test_sgd_with_momentum_by_hand(nesterov: bool) -> None:
    expected, velocity = _WEIGHTS.astype(np.float64), np.zeros((2, 3))
    for gradient in _GRADIENTS:
        velocity = 0.9 * velocity - 0.1 * gradient
        ahead = 0.9 * velocity - 0.1 * gradient
        expected = expected + (ahead if nesterov else velocity)
    found = _applied(SGDIpuOptimizer(0.1, momentum=0.9, nesterov=nesterov))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_learning_rate_decays_with_the_updates() -> None:
    expected = _WEIGHTS - sum(
        0.1 / (1 + 0.5 * step) * gradient for step, gradient in enumerate(_GRADIENTS)
    )
    found = _applied(SGDIpuOptimizer(lr=0.1, decay=0.5))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_transformers_see_clipped_gradients_with_their_variables() -> None:
    def doubled(pairs: Any) -> Any:
        return [(gradient * 2, variable) for gradient, variable in pairs]

    optimizer = SGDIpuOptimizer(0.1, clipvalue=0.25, gradient_transformers=[doubled])
    expected = _WEIGHTS - 0.2 * sum(np.clip(g, -0.25, 0.25) for g in _GRADIENTS)
    np.testing.assert_allclose(_applied(optimizer), expected, rtol=1e-5)


def test_states_have_the_types_that_were_chosen() -> None:
    optimizer = AdamIpuOptimizer(
        m_dtype=tf.float16, v_dtype=lambda variable: variable.dtype, amsgrad=True
    )
    variable = keras.Variable(_WEIGHTS.astype(np.float16), dtype="float16")
    optimizer.apply_gradients([(_GRADIENTS[0], variable)])
    types = [optimizer.get_slot(variable, name).dtype for name in ("m", "v", "vhat")]
    assert types == ["float16", "float16", "float16"]
    optimizer = SGDIpuOptimizer(momentum=0.9, momentum_accum_dtype=np.float32)
    optimizer.apply_gradients([(_GRADIENTS[0], variable)])
    assert optimizer.get_slot(variable, "momentum").dtype == "float32"


def test_half_precision_is_where_it_was_asked_for() -> None:
    # 0.001 times 2**-14 is below what float16 can hold: the second moment is lost.
    tiny = tf.fill((2, 3), 2.0**-14)
    moments = {}
    for precision in (tf.float16, tf.float32):
        optimizer = AdamIpuOptimizer(
            optimizer_compute_precisions=(precision,), v_dtype=tf.float32
        )
        variable = keras.Variable(_WEIGHTS)
        optimizer.apply_gradients([(tiny, variable)])
        moments[precision] = optimizer.get_slot(variable, "v").numpy()
    assert (moments[tf.float16] == 0).all()
    np.testing.assert_allclose(moments[tf.float32], 0.001 * 2.0**-28, rtol=1e-5)


def test_sparse_gradients_and_other_aggregators_are_refused() -> None:
    variable = keras.Variable(_WEIGHTS)
    sparse = tf.IndexedSlices(tf.ones((1, 3)), tf.constant([0]), tf.constant([2, 3]))
    with pytest.raises(NotImplementedError, match="sparse gradient"):
        AdamIpuOptimizer().apply_gradients([(sparse, variable)])
    with pytest.raises(NotImplementedError, match="gradient_aggregator"):
        SGDIpuOptimizer(gradient_aggregator=lambda pairs: pairs)


@pytest.mark.parametrize(
    "optimizer",
    [
        AdamIpuOptimizer(debiasing=False, m_dtype=tf.float16),
        LAMBIpuOptimizer(weight_decay_rate=0.1, exclude_from_weight_decay=["bias"]),
        SGDIpuOptimizer(momentum=0.5, momentum_accum_dtype=tf.float32),
    ],
)
def test_optimizers_can_be_made_from_their_configuration(optimizer: Any) -> None:
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is type(optimizer)
    assert again.get_config() == optimizer.get_config()
    assert isinstance(again, IpuOptimizerBase)


def _fitted(optimizer: Any) -> np.ndarray:
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with IPUStrategy().scope():
        model = keras.Sequential(
            [keras.Input((3,), batch_size=2), keras.layers.Dense(1, use_bias=False)]
        )
        model.set_weights([np.array([[1.0], [-2.0], [0.5]], np.float32)])
        model.compile(optimizer, "mse", steps_per_execution=3)
        x = np.arange(18, dtype=np.float32).reshape(6, 3) / 10
        y = np.linspace(-1, 1, 6, dtype=np.float32)[:, None]
        model.fit(x, y, batch_size=2, shuffle=False, verbose=0)
        return model.get_weights()[0].ravel()


@pytest.mark.parametrize("kind", [AdamIpuOptimizer, LAMBIpuOptimizer])
def test_fit_updates_as_numpy_does(kind: Any) -> None:
    x = np.arange(18, dtype=np.float64).reshape(3, 2, 3) / 10
    y = np.linspace(-1, 1, 6).reshape(3, 2)
    weights, m, v = np.array([1.0, -2.0, 0.5]), np.zeros(3), np.zeros(3)
    for inputs, labels in zip(x, y, strict=True):
        gradient = (inputs @ weights - labels) @ inputs
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        update = m / (np.sqrt(v) + (1e-6 if kind is LAMBIpuOptimizer else 1e-7))
        if kind is LAMBIpuOptimizer:
            update *= np.linalg.norm(weights) / np.linalg.norm(update)
        weights = weights - 0.05 * update
    np.testing.assert_allclose(_fitted(kind(0.05, debiasing=False)), weights, rtol=1e-4)


def test_fit_trains_both_embeddings_alike() -> None:
    x, y = np.array([[0, 2], [1, 2]]), np.ones((2, 2, 3), np.float32)
    trained = []
    with IPUStrategy().scope():
        for layer in (Embedding(3, 3), keras.layers.Embedding(3, 3)):
            model = keras.Sequential([keras.Input((2,), batch_size=2), layer])
            model.set_weights([np.zeros((3, 3), np.float32)])
            model.compile(AdamIpuOptimizer(0.1), "mse")
            model.fit(x, y, epochs=2, batch_size=2, verbose=0)
            trained.append(model.get_weights()[0])
    np.testing.assert_allclose(trained[0], trained[1], rtol=1e-6)
    assert (trained[0] > 0.1).all()


@pytest.mark.parametrize(
    "hook",
    [
        "_resource_apply_dense",
        "_resource_apply_sparse",
        "get_gradients",
        "_aggregate_gradients",
    ],
)
def test_optimizers_written_for_keras_two_are_refused_by_name(hook: str) -> None:
    mine = type("MySGD", (keras.optimizers.SGD,), {hook: lambda *_: None})
    with IPUStrategy().scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        with pytest.raises(NotImplementedError, match=f"MySGD overrides `{hook}`"):
            model.compile(mine(), "mse")
    model.compile(GradientAccumulationOptimizer(mine(), 2), "mse")
    with pytest.raises(NotImplementedError, match=f"MySGD overrides `{hook}`"):
        model.fit(np.ones((2, 1)), np.ones((2, 1)), batch_size=1)
