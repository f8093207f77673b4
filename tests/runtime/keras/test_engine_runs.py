"""What `fit`, `evaluate` and `predict` of an extended model do and return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.config import IPUConfig
from ipu_runtime.engine.build.programs import executor_choice
from ipu_runtime.engine.build.programs.executable import PieceSize
from ipu_runtime.engine.run import epoch
from ipu_runtime.engine.watch.observer import Progress, observed_by, piece_s
from ipu_runtime.ipu_strategy import IPUStrategy

pytestmark = pytest.mark.slow

_random = np.random.default_rng(2)
X = _random.normal(size=(32, 4)).astype(np.float32)
Y = _random.integers(0, 3, 32)


def made(
    ipus: int = 1,
    dropout: float = 0.0,
    stages: tuple[int, ...] = (),
    configure: Callable[[Any], None] = lambda model: None,
    **arguments: Any,
) -> Any:
    """Return a compiled small model on a device with so many IPUs."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    with IPUStrategy().scope():
        keras.utils.set_random_seed(7)
        model = keras.Sequential(
            [
                keras.Input((4,)),
                keras.layers.Dense(5, activation="tanh"),
                keras.layers.Dropout(dropout) if dropout else keras.layers.ReLU(),
                keras.layers.Dense(3, activation="softmax"),
            ]
        )
        if stages:
            model.set_pipeline_stage_assignment(list(stages))
        configure(model)
        model.compile(
            keras.optimizers.SGD(0.1),
            "sparse_categorical_crossentropy",
            metrics=["accuracy"],
            **arguments,
        )
    return model


def fitted(model: Any, x: Any = X, y: Any = Y, **arguments: Any) -> Any:
    """Train without shuffling and without output."""
    settings = {"batch_size": 4, "shuffle": False, "verbose": 0} | arguments
    return model.fit(x, y, **settings)


def weights_of(model: Any) -> list[Any]:
    """Return the values of all weights."""
    return [weight.numpy() for weight in model.weights]


def assert_same(one: Any, other: Any) -> None:
    """Demand equality up to the rounding of float32 sums."""
    for first, second in zip(weights_of(one), weights_of(other), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)


def test_one_replica_trains_as_stock_keras_does() -> None:
    model = made(steps_per_execution=8)
    stock = keras.models.clone_model(model)
    stock.set_weights(model.get_weights())
    stock.compile(
        keras.optimizers.SGD(0.1),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    ours = fitted(model, epochs=2, validation_data=(X[:8], Y[:8])).history
    stock_fit = keras.Model.fit
    theirs = stock_fit(
        stock, X, Y, 4, 2, verbose=0, shuffle=False, validation_data=(X[:8], Y[:8])
    ).history
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        np.testing.assert_allclose(ours[name], values, rtol=1e-5)
    assert_same(model, stock)
    np.testing.assert_allclose(
        model.evaluate(X, Y, batch_size=8, verbose=0),
        stock.evaluate(X, Y, verbose=0),
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        model.predict(X, batch_size=8, verbose=0), stock(X), rtol=1e-5
    )


def test_replicas_sum_gradients_of_batches_dealt_in_turn() -> None:
    replicated = made(ipus=2, steps_per_execution=4)
    fitted(replicated)
    alone = made(
        configure=lambda model: model.set_gradient_accumulation_options(2),
        steps_per_execution=8,
    )
    fitted(alone)
    assert_same(replicated, alone)
    assert int(replicated.optimizer.iterations) == 4


def test_accumulation_and_replicas_together() -> None:
    accumulate = 2
    replicated = made(
        ipus=2,
        configure=lambda model: model.set_gradient_accumulation_options(accumulate),
        steps_per_execution=4,
    )
    fitted(replicated)
    alone = made(
        configure=lambda model: model.set_gradient_accumulation_options(4),
        steps_per_execution=8,
    )
    fitted(alone)
    assert_same(replicated, alone)


@pytest.mark.parametrize("method", ["mean", "running_mean"])
def test_means_over_micro_batches_equal_a_large_batch(method: str) -> None:
    model = made(
        configure=lambda model: model.set_gradient_accumulation_options(4, method),
        steps_per_execution=8,
    )
    fitted(model)
    large = made(steps_per_execution=2)
    fitted(large, batch_size=16)
    assert_same(model, large)


def test_metrics_are_those_of_the_last_replica_unless_reduced() -> None:
    model = made(ipus=2, steps_per_execution=4)
    by_replica = [
        _plain_loss(model, X.reshape(8, 4, 4)[replica::2].reshape(-1, 4), replica)
        for replica in range(2)
    ]
    loss = model.evaluate(X, Y, batch_size=4, verbose=0)[0]
    assert loss == pytest.approx(by_replica[1], rel=1e-5)
    expected = {
        "list": by_replica,
        "sum": sum(by_replica),
        "mean": sum(by_replica) / 2,
    }
    for method, wanted in expected.items():
        model.set_replication_options(method)
        got = model.evaluate(X, Y, batch_size=4, verbose=0)[0]
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def _plain_loss(model: Any, x: Any, replica: int) -> float:
    y = np.concatenate(Y.reshape(8, 4)[replica::2])
    chosen = np.asarray(model(x))[np.arange(len(y)), y]
    return float(-np.log(chosen).mean())


def test_dropout_differs_between_replicas_and_updates() -> None:
    same = np.repeat(X[:1], 32, axis=0)
    model = made(ipus=2, dropout=0.5, steps_per_execution=1)
    losses: list[float] = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            losses.append(logs["loss"])

    model.set_asynchronous_callbacks(True)
    model.optimizer.learning_rate = 0.0
    fitted(model, same, np.zeros(32), batch_size=4, callbacks=[Watch()])
    assert len(losses) == 8
    assert len({round(loss, 5) for loss in losses}) == 8


def test_callbacks_are_called_once_per_execution() -> None:
    calls: list[tuple[str, int]] = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            calls.append(("begin", batch))

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            calls.append(("end", batch))
            assert logs["loss"] > 0

    fitted(made(steps_per_execution=4), callbacks=[Watch()])
    assert calls == [("begin", 0), ("end", 3), ("begin", 4), ("end", 7)]


def test_asynchronous_callbacks_see_every_step_of_every_replica() -> None:
    steps: list[int] = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            steps.append(batch)

    model = made(ipus=2, steps_per_execution=4)
    model.set_asynchronous_callbacks(True)
    fitted(model, callbacks=[Watch()])
    assert steps == [0, 0, 1, 1, 2, 2, 3, 3]


def test_accumulated_outfeed_reports_the_mean_of_the_last_run() -> None:
    def options(model: Any) -> None:
        model.set_pipelining_options(4, accumulate_outfeed=True)

    running: list[float] = []

    class Watch(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            running.append(logs["loss"])

    model = made(2, stages=(0, 0, 1), configure=options, steps_per_execution=8)
    history = fitted(model).history
    other = made(
        2,
        stages=(0, 0, 1),
        configure=lambda model: model.set_pipelining_options(4),
        steps_per_execution=8,
    )
    other.set_asynchronous_callbacks(True)
    fitted(other, callbacks=[Watch()])
    assert history["loss"][-1] == pytest.approx(sum(running[-4:]) / 4, rel=1e-5)
    assert_same(model, other)


def test_asynchronous_callbacks_see_the_metrics_of_a_pipelined_evaluation() -> None:
    losses: list[float] = []

    class Watch(keras.callbacks.Callback):
        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            losses.append(logs["loss"])

    model = made(
        2,
        stages=(0, 0, 1),
        configure=lambda model: model.set_pipelining_options(4),
        steps_per_execution=8,
    )
    model.set_asynchronous_callbacks(True)
    loss, _ = model.evaluate(X, Y, batch_size=4, verbose=0, callbacks=[Watch()])
    # Keras' running mean: the last one is that of the whole evaluation.
    assert losses[-1] == pytest.approx(loss, rel=1e-6)
    assert all(value > 0 for value in losses)


def test_replicated_pipelines_evaluate_and_predict_in_order() -> None:
    model = made(
        4,
        stages=(0, 0, 1),
        configure=lambda model: model.set_pipelining_options(4),
        steps_per_execution=4,
    )
    fitted(model)
    model.steps_per_execution = 2
    outputs = model.predict(X, batch_size=4, verbose=0)
    np.testing.assert_allclose(outputs, model(X), rtol=1e-5)
    loss, accuracy = model.evaluate(X, Y, batch_size=4, verbose=0)
    assert loss == pytest.approx(
        _plain_loss(model, np.concatenate(X.reshape(8, 4, 4)[1::2]), 1), rel=1e-5
    )
    assert 0 <= accuracy <= 1


def test_datasets_give_what_arrays_give() -> None:
    from_arrays = made(ipus=2, steps_per_execution=2)
    fitted(from_arrays, class_weight={0: 2.0, 1: 0.5})
    weights = np.where(Y == 0, 2.0, np.where(Y == 1, 0.5, 1.0)).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((X.astype(np.float64), Y, weights))
    from_dataset = made(ipus=2, steps_per_execution=2)
    from_dataset.fit(dataset.batch(4, drop_remainder=True), verbose=0)
    assert_same(from_arrays, from_dataset)


def test_an_iterator_goes_on_over_epochs_when_steps_are_given() -> None:
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4, drop_remainder=True)
    model = made(steps_per_execution=4)
    model.fit(dataset, steps_per_epoch=4, epochs=2, verbose=0)
    once = made(steps_per_execution=8)
    fitted(once)
    assert_same(model, once)


def test_data_that_end_early_end_the_training(
    caplog: pytest.LogCaptureFixture,
) -> None:
    endless = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4, drop_remainder=True)
    of_unknown_size = endless.filter(lambda x, y: True)
    model = made(steps_per_execution=4)
    tf.get_logger().propagate = True
    history = model.fit(of_unknown_size, steps_per_epoch=12, epochs=3, verbose=0)
    assert len(history.epoch) == 1
    assert int(model.optimizer.iterations) == 8
    assert "ran out of data" in caplog.text


def test_statistics_of_replicas_become_their_mean() -> None:
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    with IPUStrategy().scope():
        model = keras.Sequential(
            [keras.Input((4,)), keras.layers.BatchNormalization(momentum=0.5)]
        )
        model.compile(keras.optimizers.SGD(0.0), "mse", steps_per_execution=4)
        model.fit(X, X, batch_size=4, shuffle=False, verbose=0)
    means = X.reshape(4, 2, 4, 4).mean(axis=2)
    expected = np.zeros((2, 4))
    for step in range(4):
        expected = 0.5 * expected + 0.5 * means[step]
    moving = model.layers[0].moving_mean.numpy()
    np.testing.assert_allclose(moving, expected.mean(axis=0), rtol=1e-5, atol=1e-6)


def test_compiling_again_keeps_weights() -> None:
    model = made(steps_per_execution=8)
    fitted(model)
    before = weights_of(model)
    model.compile("sgd", "sparse_categorical_crossentropy", steps_per_execution=4)
    loss = model.evaluate(X, Y, batch_size=4, verbose=0, return_dict=True)["loss"]
    expected = np.mean(
        [_plain_loss(model, X.reshape(8, 4, 4)[r::2].reshape(-1, 4), r) for r in (0, 1)]
    )
    assert loss == pytest.approx(expected, rel=1e-5)
    for old, new in zip(before, weights_of(model), strict=True):
        np.testing.assert_array_equal(old, new)


def test_xla_gives_what_the_graph_executor_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = made(steps_per_execution=8)
    fitted(plain)
    monkeypatch.setattr(executor_choice, "_WORTH_COMPILING_BATCHES", 1)
    compiled = made(steps_per_execution=8)
    fitted(compiled)
    assert_same(plain, compiled)


class Watcher:
    """An observer that stops after some pieces."""

    def __init__(self, stop_after: int) -> None:
        self.seen: list[Progress] = []
        self.programs: list[str] = []
        self._asked = 0
        self._stop_after = stop_after

    def compiling(self, program: str) -> None:
        self.programs.append(program)

    def compiled(
        self, program: str, seconds: float, ipu_compile_s: float, executor: str = ""
    ) -> None:
        assert seconds > 0
        assert ipu_compile_s > 0

    def progressed(self, progress: Progress) -> None:
        self.seen.append(progress)

    def should_stop(self) -> bool:
        self._asked += 1
        return self._asked > self._stop_after


def test_stop_acts_in_the_middle_of_an_execution() -> None:
    model = made(steps_per_execution=8)
    watcher = Watcher(stop_after=1)
    with observed_by(watcher):
        history = fitted(model, epochs=3)
    assert len(history.epoch) == 1
    assert 0 < int(model.optimizer.iterations) < 8
    assert watcher.programs == ["training"]


def test_pieces_grow_step_by_step_and_are_longer_when_nobody_watches() -> None:
    pieces = PieceSize(unit=2)
    pieces.record(2, seconds=5.0)  # compiles
    pieces.record(2, seconds=0.02)
    watched, unwatched = piece_s(watched=True), piece_s(watched=False)
    assert [pieces.next(1000, wanted) for wanted in (watched, unwatched)] == [10, 16]
    pieces.record(16, seconds=0.16)
    assert [pieces.next(1000, wanted) for wanted in (watched, unwatched)] == [10, 100]
    assert pieces.next(3, unwatched) == 3


@pytest.mark.parametrize(("batches", "told"), [(1, [1, 2, 3, 4]), (3, [2, 3, 4])])
def test_replicas_report_whole_steps(
    batches: int, told: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epoch, "TOLD_EVERY_S", 0.0)
    monkeypatch.setattr(PieceSize, "next", lambda _, left, wanted: min(batches, left))
    watcher = Watcher(stop_after=1000)
    with observed_by(watcher):
        fitted(made(ipus=2, steps_per_execution=4))
    # The first piece compiles, so that it has no time and is not told.
    assert [progress.step for progress in watcher.seen] == told


def test_observers_see_both_clocks() -> None:
    model = made(steps_per_execution=8)
    watcher = Watcher(stop_after=1000)
    with observed_by(watcher):
        fitted(model)
    last = watcher.seen[-1]
    assert (last.phase, last.epoch, last.step, last.steps) == ("train", 1, 8, 8)
    assert last.logs.keys() == {"loss", "accuracy"}
    profile = model.ipu_profile()
    assert last.ipu_step_us == profile.ipu_step_us > 0
    assert profile.step.total_us == pytest.approx(profile.ipu_step_us)
    assert "ms per step, in which the replica takes one batch" in str(profile)
    assert "modelled" in str(profile)
