"""IPUEstimator: training, evaluation, prediction, checkpoints and its rules."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime import optimizers
from ipu_runtime.config import IPUConfig
from ipu_runtime.engine.watch.observer import Progress, observed_by
from ipu_runtime.estimators.tf_estimator import (
    EstimatorSpec,
    ModeKeys,
    SessionRunHook,
    export,
)
from ipu_runtime.ipu_estimator import IPUEstimator, IPUEstimatorSpec
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedMode
from ipu_runtime.ipu_run_config import IPURunConfig, RunConfig
from ipu_runtime.ipu_session_run_hooks import IPULoggingTensorHook
from tests.runtime.estimators.estimator_models import (
    FEATURES,
    LABELS,
    batches,
    first_part,
    loss_of,
    model_fn,
    momentum,
    plain_estimator,
    run_config,
    second_part,
    weights,
)

pytestmark = pytest.mark.slow
v1 = tf.compat.v1


def test_training_lowers_the_loss_and_evaluation_is_reproducible(
    tmp_path: Path,
) -> None:
    results = []
    for name in ("one", "two"):
        estimator = plain_estimator(tmp_path / name, model_fn(dropout=0.1))
        estimator.train(batches, steps=4)
        before = estimator.evaluate(batches, steps=8)
        estimator.train(batches, steps=36)
        results.append(estimator.evaluate(batches, steps=8))
        assert results[-1]["loss"] < before["loss"] - 0.05
        assert results[-1]["global_step"] == 40
    assert results[0]["loss"] == results[1]["loss"]
    assert results[0]["accuracy"] == results[1]["accuracy"]


def test_weights_follow_an_independent_gradient_descent(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # As after `disable_v2_behavior`, with which older scripts begin.
    request.addfinalizer(v1.enable_resource_variables)
    v1.disable_resource_variables()

    def linear(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        weight = v1.get_variable("w", [5], initializer=v1.zeros_initializer())
        targets = tf.cast(labels, tf.float32)
        error = tf.linalg.matvec(features, weight) - targets
        loss = tf.reduce_mean(tf.square(error))
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = plain_estimator(tmp_path, linear)
    estimator.train(batches, steps=8)
    expected = np.zeros(5, "float32")
    for start in range(0, 64, 8):
        x, y = FEATURES[start : start + 8], LABELS[start : start + 8]
        expected -= 0.1 * 2 / 8 * x.T @ (x @ expected - y)
    np.testing.assert_allclose(
        estimator.get_variable_value("w"), expected, rtol=1e-5, atol=1e-6
    )


def test_a_script_without_eager_execution_gets_the_same_figures(tmp_path: Path) -> None:
    estimator = plain_estimator(tmp_path, model_fn())
    with tf.Graph().as_default():
        estimator.train(batches, steps=4)
        results = estimator.evaluate(batches, steps=8)
    assert results == estimator.evaluate(batches, steps=8)


def test_training_in_two_parts_equals_one_longer_training(tmp_path: Path) -> None:
    function = model_fn(dropout=0.3)
    parts = plain_estimator(tmp_path / "parts", function)
    parts.train(batches, steps=8)
    again = plain_estimator(tmp_path / "parts", function)
    again.train(batches, steps=8)
    whole = plain_estimator(tmp_path / "whole", function)
    whole.train(batches, steps=16)
    for one, other in zip(weights(again), weights(whole), strict=True):
        np.testing.assert_array_equal(one, other)
    assert again.latest_checkpoint() == str(tmp_path / "parts" / "model.ckpt-16")


class _StopAfter:
    """Stops a run after some pieces."""

    def __init__(self, pieces: int) -> None:
        self.left = pieces
        self.steps: list[Progress] = []

    def compiling(self, program: str) -> None:
        pass

    def compiled(
        self, program: str, seconds: float, ipu_compile_s: float, executor: str = ""
    ) -> None:
        assert ipu_compile_s > 0

    def progressed(self, progress: Progress) -> None:
        self.steps.append(progress)
        self.left -= 1

    def should_stop(self) -> bool:
        return self.left <= 0


def test_a_stopped_training_keeps_its_steps_and_goes_on(tmp_path: Path) -> None:
    function = model_fn(dropout=0.3)
    stopped = plain_estimator(tmp_path / "stopped", function, loop=16)
    observer = _StopAfter(1)
    with observed_by(observer):
        stopped.train(batches, steps=16)
    done = observer.steps[-1].step
    assert 0 < done < 16
    assert observer.steps[-1].ipu_step_us > 0
    assert stopped.get_variable_value("global_step") == done


def test_the_loop_length_does_not_change_results(tmp_path: Path) -> None:
    trained = []
    for loop in (1, 8):
        estimator = plain_estimator(tmp_path / str(loop), model_fn(), loop=loop)
        estimator.train(batches, steps=8)
        trained.append(weights(estimator))
    for one, other in zip(*trained, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_global_step_advances_inside_the_loop(
    tmp_path: Path, replicas: int
) -> None:
    def decaying(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        weight = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        rate = tf.cast(v1.train.get_global_step() + 1, tf.float32)
        loss = weight + 0.0 * tf.reduce_sum(features)
        optimizer = optimizers.CrossReplicaOptimizer(
            v1.train.GradientDescentOptimizer(rate)
        )
        return EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))

    estimator = plain_estimator(tmp_path, decaying, loop=4, replicas=replicas)
    estimator.train(batches, steps=4)
    estimator.train(batches, steps=4)
    # The gradient is 1, so the weight falls by the step's number in every step.
    assert estimator.get_variable_value("w") == -sum(range(1, 9))
    assert estimator.get_variable_value("global_step") == 8


def test_loss_and_the_model_functions_summaries_are_written(tmp_path: Path) -> None:
    def summarized(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        spec = model_fn()(features, labels, mode)
        v1.summary.scalar("largest", tf.reduce_max(features))
        return spec

    estimator = plain_estimator(tmp_path, summarized, loop=4, save_summary_steps=1)
    estimator.train(batches, steps=8)
    written: dict[str, list[int]] = {}
    for file in tmp_path.glob("events.out.tfevents.*"):
        for event in v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                written.setdefault(value.tag, []).append(event.step)
    assert written["loss"] == [4, 8]
    assert written["largest"] == [4, 8]


def test_replicas_average_gradients_over_their_batches(tmp_path: Path) -> None:
    wrap = optimizers.CrossReplicaOptimizer
    replicated = plain_estimator(tmp_path / "two", model_fn(wrap), replicas=2)
    replicated.train(lambda: batches(4), steps=8)
    single = plain_estimator(tmp_path / "one", model_fn())
    single.train(lambda: batches(8), steps=8)
    for one, other in zip(weights(replicated), weights(single), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    results = replicated.evaluate(lambda: batches(4), steps=8)
    assert results["loss"] == pytest.approx(
        single.evaluate(lambda: batches(8), steps=8)["loss"], rel=1e-4
    )


@pytest.mark.parametrize("loop", [1, 2])
def test_replicas_are_evaluated_as_one(tmp_path: Path, loop: int) -> None:
    def losses(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        weight = v1.get_variable("weight", initializer=1.0)
        loss = tf.reduce_mean(features) * weight
        metrics = {"mean": v1.metrics.mean(features)}
        return EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    def numbers() -> Any:
        data = tf.data.Dataset.from_tensor_slices(np.float32([3, 5]))
        return data.map(lambda number: (number, number)).batch(1, True).repeat()

    estimator = plain_estimator(tmp_path, losses, loop, replicas=2)
    results = estimator.evaluate(numbers, steps=2)
    assert results["loss"] == 4.0


def test_accumulation_on_replicas_equals_a_large_batch(tmp_path: Path) -> None:
    def wrap(optimizer: Any) -> Any:
        return optimizers.CrossReplicaGradientAccumulationOptimizerV2(
            optimizer, 2, reduction_method="mean"
        )

    small = plain_estimator(tmp_path / "small", model_fn(wrap), replicas=2)
    small.train(lambda: batches(4), steps=8)
    large = plain_estimator(tmp_path / "large", model_fn())
    large.train(lambda: batches(16), steps=4)
    for one, other in zip(weights(small), weights(large), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_replicas_draw_different_dropout_masks(tmp_path: Path) -> None:
    def masks(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        import keras

        kept = keras.layers.Dropout(0.5)(tf.ones([64]), training=True)
        return EstimatorSpec(mode, predictions=tf.reshape(kept, [1, 64]))

    estimator = plain_estimator(tmp_path, masks, loop=2, replicas=2)
    drawn = list(estimator.predict(batches, num_predictions=4))
    assert len({mask.tobytes() for mask in drawn}) == 4


def test_predictions_come_in_the_order_of_the_data(tmp_path: Path) -> None:
    wrap = optimizers.CrossReplicaOptimizer
    estimator = plain_estimator(tmp_path, model_fn(wrap), replicas=2)
    estimator.train(batches, steps=64)
    classes = [
        item["classes"] for item in estimator.predict(batches, num_predictions=64)
    ]
    assert np.mean(np.array(classes) == LABELS) > 0.9
    whole = next(estimator.predict(batches, yield_single_examples=False))
    assert whole["classes"].tolist() == classes[:8]


class _Compilations:
    """Notes which programs are compiled, and when that is done."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def compiling(self, program: str) -> None:
        self.told.append(f"compiling {program}")

    def compiled(
        self, program: str, seconds: float, ipu_compile_s: float, executor: str = ""
    ) -> None:
        self.told.append(f"compiled {program}")

    def progressed(self, progress: Progress) -> None:
        pass

    def should_stop(self) -> bool:
        return False


def test_every_program_that_compiles_is_ready_at_some_time(tmp_path: Path) -> None:
    observer = _Compilations()
    estimator = plain_estimator(tmp_path, model_fn())
    with observed_by(observer):
        estimator.train(batches, steps=4)
        estimator.evaluate(batches, steps=4)
        next(estimator.predict(batches))
    names = ("training", "evaluation", "prediction")
    assert observer.told == [
        f"{told} {name}" for name in names for told in ("compiling", "compiled")
    ]


def test_batch_norm_statistics_are_trained_and_saved(tmp_path: Path) -> None:
    import keras

    def normed(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        training = mode == ModeKeys.TRAIN
        x = keras.layers.BatchNormalization(momentum=0.5)(features, training=training)
        loss = loss_of(labels, second_part(x))
        train_op = momentum().minimize(loss)
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = plain_estimator(tmp_path, normed)
    estimator.train(batches, steps=4)
    expected = np.zeros(5)
    for start in range(0, 32, 8):
        expected = 0.5 * expected + 0.5 * FEATURES[start : start + 8].mean(axis=0)
    found = estimator.get_variable_value("batch_normalization/moving_mean")
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_metrics_on_the_host_see_all_batches(tmp_path: Path) -> None:
    def with_metrics(features: Any, labels: Any, mode: str) -> IPUEstimatorSpec:
        logits = second_part(first_part(features, False))
        classes = tf.argmax(logits, -1, output_type=tf.int32)
        train_op = momentum().minimize(loss_of(labels, logits))

        def metrics(labels: Any, classes: Any) -> dict[str, Any]:
            assert labels.shape.as_list()[1:] == [8]
            return {"accuracy": v1.metrics.accuracy(labels, classes)}

        return IPUEstimatorSpec(
            mode,
            loss=loss_of(labels, logits),
            train_op=train_op,
            eval_metrics=(metrics, {"labels": labels, "classes": classes}),
        )

    on_host = plain_estimator(tmp_path / "same", with_metrics)
    on_host.train(batches, steps=8)
    result = on_host.evaluate(batches, steps=8)
    on_device = plain_estimator(tmp_path / "same", model_fn())
    assert result["accuracy"] == on_device.evaluate(batches, steps=8)["accuracy"]


def test_sessions_have_the_settings_of_tensorflow(tmp_path: Path) -> None:
    seen = []

    class Watch(SessionRunHook):
        def after_create_session(self, session: Any, coord: Any) -> None:
            seen.append(session._config.graph_options.rewrite_options.remapping)

    estimator = plain_estimator(tmp_path, model_fn())
    tf.config.optimizer.set_experimental_options({"remapping": False})
    estimator.train(batches, steps=4, hooks=[Watch()])
    tf.config.optimizer.set_experimental_options({"remapping": True})
    estimator.evaluate(batches, steps=4, hooks=[Watch()])
    off, on = 2, 1
    assert seen == [off, on]


def test_hooks_run_once_per_loop_and_see_the_mean_loss(tmp_path: Path) -> None:
    seen: list[float] = []

    class Watch(SessionRunHook):
        def before_run(self, run_context: Any) -> Any:
            return v1.train.SessionRunArgs("loss:0")

        def after_run(self, run_context: Any, run_values: Any) -> None:
            seen.append(float(run_values.results))

    estimator = plain_estimator(tmp_path, model_fn(), loop=4)
    estimator.train(batches, steps=8, hooks=[Watch()])
    assert len(seen) == 2
    assert 0.2 < seen[0] < 1.5


@pytest.fixture
def logged_lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """Return what reads the lines that TensorFlow's logger has written."""
    logger = logging.getLogger("tensorflow")
    logger.propagate = True
    with caplog.at_level(logging.INFO, logger="tensorflow"):
        yield lambda: [record.getMessage() for record in caplog.records]
    logger.propagate = False


def test_logging_hooks_log_the_first_loop_and_then_at_their_intervals(
    tmp_path: Path, logged_lines: Callable[[], list[str]]
) -> None:
    def logged(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        often = IPULoggingTensorHook(every_n_iter=2)
        seldom = IPULoggingTensorHook(every_n_secs=1000)
        last = IPULoggingTensorHook(at_end=True)
        loss = loss_of(labels, second_part(first_part(features, True)))
        train_op = tf.group(
            momentum().minimize(loss),
            often.log({"often": loss}),
            seldom.log({"seldom": loss}),
            last.log({"last": loss}),
        )
        hooks = [often, seldom, last]
        return EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)

    plain_estimator(tmp_path, logged, loop=1).train(batches, steps=5)
    lines = logged_lines()
    logged_by = {
        name: sum(line.startswith(f"{name} = ") for line in lines)
        for name in ("often", "seldom", "last")
    }
    assert logged_by == {"often": 3, "seldom": 1, "last": 1}


def test_a_logging_hook_shows_device_tensors(
    tmp_path: Path, logged_lines: Callable[[], list[str]]
) -> None:
    def logged(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        hook = IPULoggingTensorHook(
            every_n_iter=1, logging_mode=IPUOutfeedMode.ALL, feed_name="train"
        )
        loss = loss_of(labels, second_part(first_part(features, True)))
        train_op = tf.group(momentum().minimize(loss), hook.log({"seen": loss}))
        return EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

    plain_estimator(tmp_path, logged, loop=2).train(batches, steps=4)
    assert sum(line.startswith("seen = [") for line in logged_lines()) == 2


def test_host_call_runs_on_the_host_after_each_step(tmp_path: Path) -> None:
    seen: list[float] = []

    def hosted(features: Any, labels: Any, mode: str) -> IPUEstimatorSpec:
        loss = loss_of(labels, second_part(first_part(features, True)))

        def host(value: Any) -> Any:
            return tf.numpy_function(
                lambda x: seen.append(float(x)) or x, [value], tf.float32
            )

        return IPUEstimatorSpec(
            mode,
            loss=loss,
            train_op=momentum().minimize(loss),
            host_call=(host, [loss]),
        )

    plain_estimator(tmp_path, hosted, loop=1).train(batches, steps=3)
    assert len(seen) == 3

    def without_values(features: Any, labels: Any, mode: str) -> IPUEstimatorSpec:
        spec = hosted(features, labels, mode)
        return spec._replace(host_call=(lambda: spec.host_call[0](7.0), []))

    plain_estimator(tmp_path, without_values, loop=1).train(batches, steps=2)
    assert seen[3:] == [7.0, 7.0]
    with pytest.raises(ValueError, match="host_call needs iterations_per_loop 1"):
        plain_estimator(tmp_path / "loop", hosted, loop=2).train(batches, steps=2)


def test_a_checkpoint_of_another_model_is_refused_untouched(tmp_path: Path) -> None:
    plain_estimator(tmp_path, model_fn()).train(batches, steps=4)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def other(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        loss = loss_of(labels, second_part(features))
        train_op = momentum().minimize(loss)
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    with pytest.raises(ValueError, match="is of another model: dense/kernel has shape"):
        plain_estimator(tmp_path, other).train(batches, steps=4)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_reports_are_written_for_training_and_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"autoReport.all": "true", "autoReport.directory": str(tmp_path / "r")}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(options))
    estimator = plain_estimator(tmp_path / "m", model_fn())
    estimator.train(batches, steps=4)
    estimator.evaluate(batches, steps=4)
    training, evaluation = sorted((tmp_path / "r").glob("tf_report__*"))
    assert (
        json.loads((training / "framework.json").read_text())["cluster"] == "training"
    )
    names = json.loads((evaluation / "framework.json").read_text())
    assert names["cluster"] == "evaluation"
    executed = json.loads((training / "execution.json").read_text())
    assert executed["steps_per_replica"] == 4
    assert executed["modelled_ipu_us_per_step"] > 0


def test_warm_start_takes_the_weights_of_another_directory(tmp_path: Path) -> None:
    trained = plain_estimator(tmp_path / "a", model_fn())
    trained.train(batches, steps=4)
    config = run_config(tmp_path / "b", 4)
    warm = IPUEstimator(model_fn(), config=config, warm_start_from=str(tmp_path / "a"))
    warm.train(batches, max_steps=4)
    start = tf.train.load_variable(str(tmp_path / "b" / "model.ckpt-0"), "dense/kernel")
    np.testing.assert_array_equal(start, trained.get_variable_value("dense/kernel"))


def test_random_state_is_no_part_of_a_model(tmp_path: Path) -> None:
    plain_estimator(tmp_path, model_fn()).train(batches, steps=4)
    random = plain_estimator(tmp_path, model_fn(dropout=0.3))
    before = random.evaluate(batches, steps=4)
    random.train(batches, steps=4)
    back = plain_estimator(tmp_path, model_fn())
    assert back.evaluate(batches, steps=4)["global_step"] == 8
    assert before["global_step"] == 4


def test_old_checkpoints_are_removed(tmp_path: Path) -> None:
    estimator = plain_estimator(
        tmp_path, model_fn(), keep_checkpoint_max=2, save_checkpoints_steps=4
    )
    estimator.train(batches, steps=16)
    kept = {path.stem for path in tmp_path.glob("model.ckpt-*.index")}
    assert kept == {"model.ckpt-12", "model.ckpt-16"}


def test_an_exported_model_predicts_alike(tmp_path: Path) -> None:
    plain = model_fn()

    def by_name(features: Any, labels: Any, mode: str) -> Any:
        return plain(features["x"], labels, mode)

    def named() -> Any:
        return batches().map(lambda x, y: ({"x": x}, y))

    estimator = plain_estimator(tmp_path / "m", by_name)
    estimator.train(named, steps=8)
    requests = export.build_raw_serving_input_receiver_fn({"x": tf.constant(FEATURES)})

    def receiver() -> export.ServingInputReceiver:
        pixels = v1.placeholder(tf.float32, [None, 5])
        return export.ServingInputReceiver({"x": pixels / 2}, {"x": pixels})

    given = estimator.predict(named, num_predictions=8)
    expected = [item["classes"] for item in given]
    for function, scale in ((requests, 1.0), (receiver, 2.0)):
        path = estimator.export_saved_model(str(tmp_path / "export"), function)
        served = tf.saved_model.load(path.decode()).signatures["serving_default"]
        classes = served(x=tf.constant(FEATURES[:8] * scale))["classes"].numpy()
        assert classes.tolist() == expected


def _train(function: Any, input_fn: Any = batches, **options: Any) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        plain_estimator(Path(directory), function, **options).train(input_fn, steps=4)


def test_steps_must_be_a_multiple_of_the_loop(tmp_path: Path) -> None:
    estimator = plain_estimator(tmp_path, model_fn(), loop=4)
    with pytest.raises(ValueError, match=r"steps \(6\) must be a multiple of iter"):
        estimator.train(batches, steps=6)
    with pytest.raises(ValueError, match=r"steps \(6\) must be a multiple"):
        estimator.evaluate(batches, steps=6)
    with pytest.raises(ValueError, match="One of"):
        estimator.train(batches)
    with pytest.raises(ValueError, match="Only one"):
        estimator.train(batches, steps=4, max_steps=4)
    with pytest.raises(ValueError, match="must be given for evaluate"):
        estimator.evaluate(batches)
    assert list(tmp_path.iterdir()) == []


def test_max_steps_are_rounded_up_to_whole_loops(tmp_path: Path) -> None:
    estimator = plain_estimator(tmp_path, model_fn(), loop=4)
    estimator.train(batches, max_steps=6)
    assert estimator.get_variable_value("global_step") == 8
    estimator.train(batches, max_steps=6)
    assert estimator.get_variable_value("global_step") == 8


def test_partial_batches_are_refused() -> None:
    def partial() -> Any:
        return tf.data.Dataset.from_tensor_slices((FEATURES, LABELS)).batch(8)

    with pytest.raises(ValueError, match="drop_remainder=True"):
        _train(model_fn(), partial)


def test_a_dataset_from_outside_of_input_fn_is_refused() -> None:
    outside = batches()
    with pytest.raises(ValueError, match="must make its Dataset itself"):
        _train(model_fn(), lambda: outside)


def test_running_out_of_data_is_fatal() -> None:
    data = lambda: batches().take(3)  # noqa: E731
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of range"):
        _train(model_fn(), data)


def test_int64_labels_are_refused() -> None:
    def wide() -> Any:
        return batches().map(lambda x, y: (x, tf.cast(y, tf.int64)))

    with pytest.raises(tf.errors.FailedPreconditionError, match="Unsupported datatype"):
        _train(model_fn(), wide)


def test_replicas_without_exchange_are_refused() -> None:
    with pytest.raises(ValueError, match="not a valid replicated training graph"):
        _train(model_fn(), replicas=2)


def test_incrementing_the_global_step_is_refused() -> None:
    def counting(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        loss = loss_of(labels, second_part(features))
        step = v1.train.get_global_step()
        train_op = momentum().minimize(loss, global_step=step)
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    with pytest.raises(ValueError, match="Illegal increment of the `global_step`"):
        _train(counting)


def test_accumulation_must_divide_the_loop() -> None:
    def wrap(optimizer: Any) -> Any:
        return optimizers.GradientAccumulationOptimizerV2(optimizer, 3)

    with pytest.raises(ValueError, match=r"\(4\) must be a multiple of .* \(3\)"):
        _train(model_fn(wrap))


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda features, labels: None, "must return a tf.estimator.EstimatorSpec"),
        (lambda features: None, "does not take labels"),
    ],
)
def test_wrong_model_functions_are_refused(function: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        _train(function)


def test_input_fn_must_return_a_dataset() -> None:
    with pytest.raises(ValueError, match="input_fn must return Dataset"):
        _train(model_fn(), lambda: FEATURES)


def test_constructor_rules(tmp_path: Path) -> None:
    config = run_config(tmp_path, 4)
    with pytest.raises(ValueError, match=r"ipu_run_config\.RunConfig"):
        IPUEstimator(model_fn())
    with pytest.raises(ValueError, match="reserved"):
        IPUEstimator(model_fn(), config=config, params={"input_fn": 1})
    with pytest.raises(ValueError, match="give one of them"):
        IPUEstimator(model_fn(), model_dir="elsewhere", config=config)
    with pytest.raises(ValueError, match="`train_batch_size` to be a positive"):
        IPUEstimator(model_fn(), config=config, train_batch_size=0)


def test_run_config_rules() -> None:
    config = IPUConfig()
    with pytest.raises(ValueError, match=r"Only 0 device\(s\) available"):
        IPURunConfig(ipu_options=config)
    config.auto_select_ipus = 2
    with pytest.raises(ValueError, match=r"is 1, but 2 IPU\(s\) are selected"):
        IPURunConfig(ipu_options=config)
    with pytest.raises(ValueError, match="need 4 IPUs"):
        IPURunConfig(num_replicas=4)
    with pytest.raises(TypeError, match="must be an IPUConfig"):
        IPURunConfig(ipu_options="two")  # type: ignore[arg-type]
    assert RunConfig(IPURunConfig(7)).ipu_run_config.iterations_per_loop == 7


def test_batch_size_is_shared_out_among_replicas(tmp_path: Path) -> None:
    sizes: list[int] = []

    def input_fn(params: dict[str, Any]) -> Any:
        sizes.append(params["batch_size"])
        return batches(params["batch_size"])

    wrap = optimizers.CrossReplicaOptimizer
    config = run_config(tmp_path, 4, replicas=2)
    IPUEstimator(model_fn(wrap), config=config, train_batch_size=8).train(
        input_fn, steps=4
    )
    assert sizes == [4]
