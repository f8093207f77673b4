"""Running functions and iterating data sets under a strategy."""

from __future__ import annotations

from collections.abc import Iterator

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime import loops
from ipu_runtime.config import IPUConfig, reset_ipu_configuration
from ipu_runtime.distributed.popdist_strategy import PopDistStrategy
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_runtime.ipu_strategy import IPUStrategy, IPUStrategyV1
from ipu_runtime.keras import PipelineStage
from ipu_runtime.strategies.dataset_iterators import IPUOwnedIterator
from ipu_runtime.system.emulated_device import device_for, emulated_system

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _clean_system() -> Iterator[None]:
    reset_ipu_configuration()
    yield
    reset_ipu_configuration()


def numbers(count: int) -> tf.data.Dataset:
    values = np.arange(count, dtype=np.float32)
    return tf.data.Dataset.from_tensor_slices(values).batch(2, drop_remainder=True)


def test_it_is_a_strategy_with_one_replica_in_sync() -> None:
    assert IPUStrategy is IPUStrategyV1
    strategy = IPUStrategy()
    assert isinstance(strategy, tf.distribute.Strategy)
    assert strategy.num_replicas_in_sync == 1
    assert strategy.supports_loss_scaling
    assert strategy.experimental_local_results(3) == (3,)
    with pytest.raises(RuntimeError, match="removed"):
        strategy.experimental_run_v2(None)


def test_run_returns_what_the_function_returns() -> None:
    @tf.function
    def add(a: tf.Tensor, b: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"sum": a + b}

    result = IPUStrategy().run(add, args=(tf.constant(1.0),), kwargs={"b": 2.0})
    assert result["sum"].numpy() == 3.0


def test_run_needs_a_compiled_function() -> None:
    with pytest.raises(ValueError, match="does not support eager execution"):
        IPUStrategy().run(lambda: tf.constant(1.0))


def test_run_refuses_float64() -> None:
    @tf.function
    def cast_in(x: tf.Tensor) -> tf.Tensor:
        return tf.cast(x, tf.float32)

    @tf.function
    def cast_out(x: tf.Tensor) -> tf.Tensor:
        return tf.cast(x, tf.float64)

    strategy = IPUStrategy()
    with pytest.raises(TypeError, match="input: float64"):
        strategy.run(cast_in, args=(tf.constant(1.0, tf.float64),))
    with pytest.raises(TypeError, match="output: float64"):
        strategy.run(cast_out, args=(tf.constant(1.0),))


def test_a_training_loop_of_ones_own() -> None:
    strategy = IPUStrategy()
    with strategy.scope():
        dense = keras.layers.Dense(1, kernel_initializer="zeros")
        model = keras.Sequential([keras.Input((2,)), dense])
        optimizer = keras.optimizers.SGD(0.01)
        data = iter(tf.data.Dataset.from_tensors(tf.ones((4, 2))).repeat())

        @tf.function
        def train(iterator: IPUOwnedIterator) -> tf.Tensor:
            loss = tf.constant(0.0)
            for _ in tf.range(20):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((model(next(iterator)) - 1.0) ** 2)
                weights = model.trainable_variables
                gradients = tape.gradient(loss, weights)
                optimizer.apply_gradients(zip(gradients, weights, strict=True))
            return loss

        losses = [float(strategy.run(train, args=[data])) for _ in range(2)]
    # The error starts at -1, and each update leaves 1 - 0.01 * 2 * 3 of it.
    np.testing.assert_allclose(losses, [0.94**38, 0.94**78], rtol=1e-4)
    assert int(optimizer.iterations.numpy()) == 40


def configure(ipus: int) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def trained_in_a_loop(
    replicas: int, optimizer: str, compiled: bool
) -> tuple[list[np.ndarray], np.ndarray, list[float]]:
    """Train twice two updates; replicas get halves of what one replica gets."""
    configure(replicas)
    strategy, outfeed = IPUStrategy(), IPUOutfeedQueue()
    keras.utils.set_random_seed(1)
    rows = np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)
    batch_size = 8 // replicas
    with strategy.scope():
        layers = [keras.layers.Dense(5, "tanh"), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((3,)), *layers])
        update = keras.optimizers.get(optimizer)
        data = tf.data.Dataset.from_tensor_slices(rows)
        batches = iter(data.batch(batch_size, drop_remainder=True))

        @tf.function
        def step(iterator: IPUOwnedIterator) -> tf.Tensor:
            x = next(iterator)
            with tf.GradientTape() as tape:
                wanted = tf.reduce_sum(x, axis=1, keepdims=True)
                loss = tf.reduce_sum((model(x) - wanted) ** 2)
            weights = model.trainable_variables
            gradients = tape.gradient(loss, weights)
            update.apply_gradients(zip(gradients, weights, strict=True))
            return loss

        @tf.function(jit_compile=compiled)
        def train(iterator: IPUOwnedIterator) -> tf.Tensor:
            total = tf.constant(0.0)
            for _ in tf.range(2):
                loss = step(iterator)
                outfeed.enqueue(loss)
                total += strategy.reduce("SUM", loss, axis=None)
            return total

        totals = [float(strategy.run(train, args=[batches])) for _ in range(2)]
    return model.get_weights(), outfeed.dequeue().numpy(), totals


@pytest.mark.parametrize(("optimizer", "compiled"), [("sgd", False), ("adam", True)])
def test_replicas_sum_the_gradients_of_their_batches(
    optimizer: str, compiled: bool
) -> None:
    weights, losses, totals = trained_in_a_loop(1, optimizer, compiled)
    by_two, losses_by_replica, totals_of_two = trained_in_a_loop(2, optimizer, compiled)
    for alone, together in zip(weights, by_two, strict=True):
        np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-6)
    assert losses.shape == (4,)
    assert losses_by_replica.shape == (4, 2)
    np.testing.assert_allclose(losses_by_replica.sum(axis=1), losses, rtol=1e-4)
    np.testing.assert_allclose(totals_of_two, totals, rtol=1e-4)


def test_replicas_take_turns_and_have_variables_of_their_own() -> None:
    configure(2)
    strategy, outfeed = IPUStrategy(), IPUOutfeedQueue()
    with strategy.scope():
        sums = tf.Variable(0.0)
        iterator = iter(numbers(16))

        @tf.function
        def add(iterator: IPUOwnedIterator) -> tuple[tf.Tensor, tf.Tensor]:
            for _ in tf.range(2):
                sums.assign_add(tf.reduce_sum(next(iterator)))
            outfeed.enqueue(sums.read_value())
            context = tf.distribute.get_replica_context()
            return sums, context.all_reduce("MEAN", sums.read_value())

        first, mean = strategy.run(add, args=[iterator])
    # Pairs 0+1, 4+5 and 2+3, 6+7: every second one is the other replica's.
    assert outfeed.dequeue().numpy().tolist() == [[10.0, 18.0]]
    assert float(first) == 10.0
    assert float(mean) == 14.0
    assert sums.numpy() == 10.0


def test_device_loops_in_a_function_reduce_over_its_replicas() -> None:
    configure(2)
    strategy = IPUStrategy()
    with strategy.scope():
        weight = keras.Variable(0.0)
        optimizer = keras.optimizers.SGD(1.0)
        optimizer.build([weight])
        infeed = IPUInfeedQueue(numbers(16))
        _ = infeed.initializer

        @tf.function(jit_compile=True)
        def train() -> tf.Tensor:
            def body(total: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
                optimizer.apply_gradients([(tf.reduce_sum(x), weight)])
                return total + tf.reduce_sum(x)

            return loops.repeat(2, body, [0.0], infeed)

        total = strategy.run(train)
    assert float(total) == 1.0 + 9.0
    assert float(weight.numpy()) == -sum(range(8))


def test_run_inside_a_function_uses_all_replicas() -> None:
    configure(2)
    strategy = IPUStrategy()
    with strategy.scope():
        weight = tf.Variable(0.0)
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        iterator = iter(numbers(8))

        def step(iterator: IPUOwnedIterator) -> tf.Tensor:
            optimizer.apply_gradients([(tf.reduce_sum(next(iterator)), weight)])
            return weight.read_value()

        @tf.function
        def outer() -> tf.Tensor:
            return strategy.run(step, args=[iterator])

        assert float(outer()) == -(0 + 1 + 2 + 3)


def test_iterators_in_scope_are_for_the_device() -> None:
    with IPUStrategy().scope():
        iterator = iter(numbers(8))
        assert isinstance(iterator, IPUOwnedIterator)
        with pytest.raises(RuntimeError, match="Accessing dataset elements"):
            next(iterator)
        with pytest.raises(NotImplementedError):
            iterator.get_next_as_optional()
    assert next(iter(numbers(8))).numpy().tolist() == [0.0, 1.0]


def test_iterators_continue_from_run_to_run() -> None:
    strategy = IPUStrategy()

    @tf.function
    def take(iterator: IPUOwnedIterator) -> tf.Tensor:
        return tf.reduce_sum(next(iterator))

    with strategy.scope():
        iterator = iter(numbers(8))
        sums = [float(strategy.run(take, args=[iterator])) for _ in range(3)]
    assert sums == [1.0, 5.0, 9.0]


def test_iterators_need_static_shapes() -> None:
    ragged = tf.data.Dataset.from_tensor_slices(np.arange(5)).batch(2)
    with IPUStrategy().scope(), pytest.raises(ValueError, match="drop_remainder=True"):
        iter(ragged)


def test_iterators_can_be_left_to_the_host() -> None:
    with IPUStrategy(enable_dataset_iterators=False).scope():
        assert next(iter(numbers(4))).numpy().tolist() == [0.0, 1.0]


def test_models_without_extensions_train_as_in_keras() -> None:
    with IPUStrategy(enable_keras_extensions=False).scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=2)
        x = tf.data.Dataset.from_tensors((tf.ones((4, 2)), tf.ones((4, 1)))).repeat(4)
        history = model.fit(x, epochs=2, verbose=0)
        assert len(history.history["loss"]) == 2
        assert model.predict(np.ones((4, 2), np.float32), verbose=0).shape == (4, 1)


def test_reduce_takes_sum_and_mean_only() -> None:
    strategy = IPUStrategy()
    assert strategy.reduce("SUM", 3.0, axis=None) == 3.0
    assert strategy.reduce(tf.distribute.ReduceOp.MEAN, 3.0, axis=None) == 3.0
    with pytest.raises(ValueError, match="SUM and MEAN"):
        strategy.reduce("MAX", 3.0, axis=None)


def test_stages_need_an_ipu_strategy() -> None:
    words = "may only be used from within an IPUStrategy"
    with pytest.raises(RuntimeError, match=words), PipelineStage(0):
        pass
    with (
        PopDistStrategy().scope(),
        pytest.raises(RuntimeError, match=words),
        PipelineStage(0),
    ):
        pass


def test_the_device_follows_the_configuration() -> None:
    config = IPUConfig()
    config.auto_select_ipus = 8
    config.allow_recompute = True
    config.configure_ipu_system()
    device = device_for(IPUStrategy())
    assert device.ipus == 8
    assert device.config["allow_recompute"] is True
    assert device.system == "Pod16"
    assert device.loss_scale_replicas == 1
    with emulated_system("Bow-Pod16"):
        assert device_for(IPUStrategy()).system == "Bow-Pod16"


def test_popdist_divides_losses_by_the_replicas() -> None:
    config = IPUConfig()
    config.auto_select_ipus = 4
    config.configure_ipu_system()
    strategy = PopDistStrategy()
    assert device_for(strategy, shard_count=2).loss_scale_replicas == 2
    strategy.update_ipu_config(config)
    assert config.experimental.multi_replica_distribution.process_count == 1


def test_memory_is_not_checked_when_that_is_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert device_for(None).check_memory
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"debug.allowOutOfMemory": "true"}')
    assert not device_for(None).check_memory
