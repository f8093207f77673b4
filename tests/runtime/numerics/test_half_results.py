"""Float16 results as the device makes them: rounding at random and overflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime import ipu_compiler, scopes
from ipu_runtime.config import IPUConfig, StochasticRoundingBehaviour
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.ops import f8_ops
from ipu_runtime.utils import reset_ipu_configuration, reset_ipu_seed

pytestmark = pytest.mark.slow

ON, ONLY = (
    StochasticRoundingBehaviour.ON,
    StochasticRoundingBehaviour.REPLICA_IDENTICAL_ONLY,
)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    keras.config.set_dtype_policy("float32")
    reset_ipu_seed(0)
    reset_ipu_configuration()


def strategy_for(ipus: int = 1, **behaviour: Any) -> Any:
    """Return a strategy on a device with that floating-point behaviour."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    for name, value in behaviour.items():
        setattr(config.floating_point_behaviour, name, value)
    config.configure_ipu_system()
    return IPUStrategy()


def linear(
    weights: Any,
    policy: str = "mixed_float16",
    ipus: int = 1,
    configure: Callable[[Any], None] = lambda model: None,
    steps: int = 1,
    rate: float = 1.0,
    **behaviour: Any,
) -> Any:
    """Return a compiled model that multiplies by a matrix."""
    weights = np.asarray(weights, np.float32)
    with strategy_for(ipus, **behaviour).scope():
        keras.config.set_dtype_policy(policy)
        model = keras.Sequential(
            [
                keras.Input(weights.shape[:1]),
                keras.layers.Dense(weights.shape[1], use_bias=False),
                keras.layers.Activation("linear"),
            ]
        )
        model.set_weights([weights])
        configure(model)
        model.compile(
            keras.optimizers.SGD(rate),
            "mse",
            steps_per_execution=steps,
            auto_scale_loss=False,
        )
    return model


def neighbours(values: Any) -> tuple[Any, Any]:
    """Return the float16 numbers below and above."""
    nearest = np.asarray(values, np.float32).astype(np.float16)
    below = np.where(
        nearest <= values, nearest, np.nextafter(nearest, np.float16(-np.inf))
    )
    above = np.where(
        nearest >= values, nearest, np.nextafter(nearest, np.float16(np.inf))
    )
    return below.astype(np.float32), above.astype(np.float32)


def test_products_are_rounded_to_a_neighbour_with_the_right_share() -> None:
    rows = 4096
    x = np.ones((rows, 3), np.float32)
    # 1 + 2**-11 + 2**-13 lies five eighths of the way from 1 to the next number.
    weights = [[1.0], [2.0**-11], [2.0**-13]]
    made = linear(weights, esr=ON).predict(x, batch_size=rows, verbose=0)
    below, above = neighbours(np.float32(1 + 2.0**-11 + 2.0**-13))
    assert set(np.unique(made)) == {np.float16(below), np.float16(above)}
    share = np.mean(made == np.float16(above))
    # Six standard deviations of a share of 4096 draws.
    assert share == pytest.approx(5 / 8, abs=6 * np.sqrt(15 / 64 / rows))
    nearest = linear(weights).predict(x, batch_size=rows, verbose=0)
    assert len(np.unique(nearest)) == 1


@pytest.mark.parametrize("size", [1.0, -3.0, 2.0**-15, -(2.0**-24), 60000.0, 0.0])
def test_rounded_sums_are_right_on_average(size: float) -> None:
    rows = 4096
    exact = np.float32(size) * np.float32(1 + 2.0**-12)
    model = linear([[size], [size]], "float16", esr=ON)
    x = np.tile(np.float32([1, 2.0**-12]), (rows, 1))
    made = model.predict(x, batch_size=rows, verbose=0).astype(np.float64)
    below, above = neighbours(exact)
    assert set(np.unique(made)) <= {float(below), float(above)}
    spread = 6 * (float(above) - float(below)) / np.sqrt(rows)
    assert made.mean() == pytest.approx(float(exact), abs=spread + 1e-30)


def test_the_seed_decides() -> None:
    x = np.ones((64, 2), np.float32)
    made = []
    for seed in (3, 3, 4):
        reset_ipu_seed(seed)
        model = linear([[1.0], [2.0**-11]], esr=ON)
        made.append(model.predict(x, batch_size=64, verbose=0))
    np.testing.assert_array_equal(made[0], made[1])
    assert (made[0] != made[2]).any()


def test_micro_batches_draw_differently_unless_replicas_are_identical() -> None:
    x = np.ones((64, 2), np.float32)
    for identical in (False, True):
        reset_ipu_seed(1, experimental_identical_replicas=identical)
        model = linear([[1.0], [2.0**-11]], ipus=2, esr=ON)
        first, second = np.split(model.predict(x, batch_size=32, verbose=0), 2)
        assert np.array_equal(first, second) is identical


STEP = 2.0**-13
"""A change of a weight of 1 that rounding to the nearest loses."""


def trained_weights(**options: Any) -> Any:
    """Return many weights after 64 updates, each by an eighth of their spacing."""
    columns = 256
    model = linear(np.ones((1, columns)), "float16", rate=STEP, **options)

    def falling(y: Any, made: Any) -> Any:
        return -keras.ops.sum(keras.ops.cast(made, "float32"), axis=-1)

    with IPUStrategy().scope():
        model.compile(keras.optimizers.SGD(STEP), falling, auto_scale_loss=False)
    x = np.ones((64, 1), np.float32)
    model.fit(x, np.zeros((64, columns)), 1, 1, 0)
    return model.get_weights()[0].astype(np.float64)


@pytest.mark.parametrize("esr", [ON, ONLY])
def test_small_updates_of_float16_weights_count_on_average(esr: Any) -> None:
    assert (trained_weights() == 1).all()
    weights = trained_weights(esr=esr)
    # Each of 64 draws adds a spacing of 2**-10 with a probability of one eighth.
    spread = 2.0**-10 * np.sqrt(64 * 7 / 64 / weights.size)
    assert weights.mean() == pytest.approx(1 + 64 * STEP, abs=6 * spread)


def test_identical_only_rounds_nothing_but_updates_at_random() -> None:
    x = np.ones((64, 2), np.float32)
    model = linear([[1.0], [2.0**-11]], esr=ONLY)
    assert len(np.unique(model.predict(x, batch_size=64, verbose=0))) == 1


def test_pipelines_draw_as_plain_models_do() -> None:
    def stages(model: Any) -> None:
        model.set_pipeline_stage_assignment([0, 1])
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)

    def accumulating(model: Any) -> None:
        model.set_gradient_accumulation_options(4)

    random = np.random.default_rng(1)
    x = random.normal(size=(32, 5)).astype(np.float32)
    y = random.normal(size=(32, 3)).astype(np.float32)
    start = random.normal(size=(5, 3))
    trained = []
    for ipus, configure in ((1, accumulating), (2, stages)):
        options = {"ipus": ipus, "configure": configure, "steps": 4, "rate": 0.1}
        model = linear(start, esr=ON, **options)
        model.fit(x, y, 4, 1, 0, shuffle=False)
        trained.append(model.get_weights()[0])
    np.testing.assert_allclose(trained[0], trained[1], rtol=1e-6)
    plain = linear(start, configure=accumulating, steps=4, rate=0.1)
    plain.fit(x, y, 4, 1, 0, shuffle=False)
    assert np.abs(plain.get_weights()[0] - trained[0]).max() > 1e-5
    np.testing.assert_allclose(plain.get_weights()[0], trained[0], rtol=0.05, atol=0.02)


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [({}, np.inf), ({"esr": ON}, 65504), ({"nanoo": True}, np.nan)],
    ids=["as the host", "largest number", "not a number"],
)
def test_overflow_of_a_product(behaviour: dict[str, Any], expected: float) -> None:
    model = linear([[300.0], [1.0]], **behaviour)
    x = np.array([[300, 0], [1, 1]], np.float32)
    made = model.predict(x, batch_size=2, verbose=0)
    np.testing.assert_array_equal(made, np.float16([[expected], [301]]))


def test_overflow_of_a_conversion_of_weights() -> None:
    x = np.eye(2, dtype=np.float32)
    weights = [[1e5], [-1e5]]
    made = linear(weights, esr=ON).predict(x, batch_size=2, verbose=0)
    np.testing.assert_array_equal(made, np.float16([[65504], [-65504]]))
    made = linear(weights, nanoo=True).predict(x, batch_size=2, verbose=0)
    assert np.isnan(made).all()


def test_overflow_stops_where_it_is_trapped() -> None:
    x = np.full((2, 2), 300, np.float32)
    y = np.zeros((2, 1), np.float32)
    model = linear([[300.0], [1.0]], oflo=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"oflo.*matmul"):
        model.predict(x, batch_size=2, verbose=0)
    # The product fits, but not the gradient of the weights.
    model = linear([[100.0], [1.0]], oflo=True)
    assert np.isfinite(model.predict(x, batch_size=2, verbose=0)).all()
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"oflo.*gradient"):
        model.fit(x, y, 2, 1, 0)


def test_float32_models_are_left_alone() -> None:
    x = np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32)
    everything = linear([[1.0], [2.0**-11]], "float32", set_all=True)
    plain = linear([[1.0], [2.0**-11]], "float32")
    np.testing.assert_array_equal(
        everything.predict(x, batch_size=8, verbose=0),
        plain.predict(x, batch_size=8, verbose=0),
    )


def test_the_scope_rounds_what_is_inside_at_random() -> None:
    a = tf.ones((1024, 2), tf.float16)
    b = tf.constant([[1.0], [2.0**-11]], tf.float16)
    with scopes.stochastic_rounding(True):
        inside = tf.matmul(a, b).numpy()
        with scopes.stochastic_rounding(False):
            nested = tf.matmul(a, b).numpy()
    assert set(np.unique(inside)) == {1, np.float16(1 + 2.0**-10)}
    assert len(np.unique(nested)) == 1
    assert len(np.unique(tf.matmul(a, b))) == 1


def test_the_scope_acts_in_a_layer() -> None:
    class Exact(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            with scopes.stochastic_rounding(False):
                return keras.ops.matmul(
                    inputs, keras.ops.cast([[1.0], [2.0**-11]], inputs.dtype)
                )

    with strategy_for(esr=ON).scope():
        keras.config.set_dtype_policy("mixed_float16")
        model = keras.Sequential([keras.Input((2,)), Exact()])
    made = model.predict(np.ones((64, 2), np.float32), batch_size=64, verbose=0)
    assert len(np.unique(made)) == 1


def test_convolutions_are_rounded_like_products() -> None:
    with strategy_for(esr=ON).scope():
        keras.config.set_dtype_policy("mixed_float16")
        model = keras.Sequential(
            [keras.Input((40, 40, 1)), keras.layers.Conv2D(1, (1, 2), use_bias=False)]
        )
        model.set_weights([np.float32([[[[1.0]], [[2.0**-11]]]]).reshape(1, 2, 1, 1)])
    made = model.predict(np.ones((2, 40, 40, 1)), batch_size=2, verbose=0)
    assert set(np.unique(made)) == {1, np.float16(1 + 2.0**-10)}
    share = np.mean(made > 1)
    assert share == pytest.approx(1 / 2, abs=6 * 0.5 / np.sqrt(made.size))


F143 = f8_ops.create_metadata(f8_ops.Format.F143)


def as_f8(values: Any) -> Any:
    """Return values after they were stored in eight bits."""
    packed = f8_ops.convert_to_f8(tf.constant(values, tf.float32), F143)
    return f8_ops.convert_from_f8(packed, tf.float32).numpy()


def test_eight_bits_follow_the_configuration() -> None:
    many = np.full(8192, 9.25, np.float32)
    strategy_for()
    np.testing.assert_array_equal(as_f8(many), 9)
    np.testing.assert_array_equal(as_f8([240, 247, 300, -300]), [240, 240, 240, -240])
    strategy_for(nanoo=True)
    np.testing.assert_array_equal(
        as_f8([240, 247, 300, -300]), [240, 240, np.nan, np.nan]
    )
    strategy_for(esr=ON)
    made = as_f8(many)
    assert set(np.unique(made)) == {9, 10}
    assert made.mean() == pytest.approx(9.25, abs=6 * 0.5 / np.sqrt(many.size))
    np.testing.assert_array_equal(as_f8([0, -3, 240, 60000]), [0, -3, 240, 240])


def test_functions_of_scripts_round_at_random_too() -> None:
    @tf.function
    def product(a: Any, b: Any) -> Any:
        return tf.matmul(a, b)

    strategy = strategy_for(esr=ON)
    a = tf.ones((1024, 2), tf.float16)
    b = tf.constant([[1.0], [2.0**-11]], tf.float16)
    with strategy.scope():
        first, second = (strategy.run(product, args=[a, b]).numpy() for _ in range(2))
    assert set(np.unique(first)) == {1, np.float16(1 + 2.0**-10)}
    assert (first != second).any()


def test_compiled_programs_saturate_and_trap() -> None:
    def product(a: Any) -> Any:
        return tf.matmul(a, a)

    def run() -> Any:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            with scopes.ipu_scope("/device:IPU:0"):
                made = ipu_compiler.compile(product, [tf.constant([[300.0]], "half")])
            return session.run(made)[0]

    strategy_for(esr=ON)
    np.testing.assert_array_equal(run(), [[65504]])
    strategy_for(oflo=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="oflo"):
        run()


def test_float16_accumulators_are_rounded_at_random() -> None:
    columns, small = 256, 2.0**-12

    def falling(y: Any, made: Any) -> Any:
        return -keras.ops.sum(keras.ops.cast(made, "float32"), axis=-1)

    def accumulated(**behaviour: Any) -> Any:
        model = linear(np.zeros((1, columns)), "float16", steps=64, **behaviour)
        model.set_gradient_accumulation_options(64)
        with IPUStrategy().scope():
            model.compile(keras.optimizers.SGD(1.0), falling, steps_per_execution=64)
        x = np.float32([1, *[small] * 63])[:, None]
        model.fit(x, np.zeros((64, columns)), 1, 1, 0, shuffle=False)
        return model.get_weights()[0].astype(np.float64)

    # One and a quarter of its spacing is one again, if rounded to the nearest.
    assert (accumulated() == 1).all()
    spread = 2.0**-10 * np.sqrt(63 * 3 / 16 / columns)
    expected = pytest.approx(1 + 63 * small, abs=6 * spread)
    assert accumulated(esr=ON).mean() == expected
