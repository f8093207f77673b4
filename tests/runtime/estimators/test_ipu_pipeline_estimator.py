"""IPUPipelineEstimator: equality with plain training, and its rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime import optimizers
from ipu_runtime.configuring.options_functions import (
    auto_select_ipus,
    create_ipu_config,
)
from ipu_runtime.ipu_pipeline_estimator import (
    IPUPipelineEstimator,
    IPUPipelineEstimatorSpec,
)
from ipu_runtime.ipu_run_config import IPURunConfig, RunConfig
from ipu_runtime.ops.pipelining_ops import PipelineSchedule, RecomputationMode
from ipu_runtime.pipelining.pipeline_update import OptimizerFunctionOutput
from tests.runtime.estimators.estimator_models import (
    FEATURES,
    LABELS,
    batches,
    model_fn,
    pipeline_estimator,
    pipeline_model_fn,
    plain_estimator,
    run_config,
    weights,
)

pytestmark = pytest.mark.slow
v1 = tf.compat.v1


def _accumulating(optimizer: Any) -> Any:
    return optimizers.GradientAccumulationOptimizerV2(optimizer, 4)


@pytest.fixture(scope="module")
def plain_weights(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Weights after 4 updates of 4 mini-batches each, without a pipeline."""
    directory = tmp_path_factory.mktemp("plain")
    estimator = plain_estimator(directory, model_fn(_accumulating, 0.3), loop=8)
    estimator.train(batches, steps=16)
    return weights(estimator)


@pytest.mark.parametrize(
    ("schedule", "recompute"),
    [
        (PipelineSchedule.Grouped, False),
        (PipelineSchedule.Grouped, True),
        (PipelineSchedule.Interleaved, True),
        (PipelineSchedule.Sequential, True),
    ],
)
def test_pipelines_equal_plain_accumulation(
    schedule: PipelineSchedule,
    recompute: bool,
    plain_weights: list[Any],
    tmp_path: Path,
) -> None:
    function = pipeline_model_fn(4, 0.3, pipeline_schedule=schedule)
    estimator = pipeline_estimator(tmp_path, function, recompute=recompute)
    estimator.train(batches, steps=16)
    assert estimator.get_variable_value("global_step") == 16
    for one, other in zip(weights(estimator), plain_weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def test_a_pipeline_on_replicas_equals_one_with_the_mean_of_twice_the_data(
    tmp_path: Path,
) -> None:
    two = pipeline_estimator(tmp_path / "two", pipeline_model_fn(4), replicas=2)
    two.train(lambda: batches(4), steps=16)
    one = pipeline_estimator(tmp_path / "one", pipeline_model_fn(4))
    one.train(lambda: batches(8), steps=16)
    for left, right in zip(weights(two), weights(one), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-6)


def test_evaluation_and_prediction_use_the_trained_stages(tmp_path: Path) -> None:
    estimator = pipeline_estimator(tmp_path, pipeline_model_fn(4))
    estimator.train(batches, steps=80)
    results = estimator.evaluate(batches, steps=8)
    unlabelled = estimator.predict(
        lambda: batches().map(lambda features, _: features), num_predictions=64
    )
    accuracy = np.mean(np.array([item["classes"] for item in unlabelled]) == LABELS)
    assert results["accuracy"] == pytest.approx(accuracy)
    assert accuracy > 0.9
    assert results["global_step"] == 80
    assert results["loss"] < 0.4


def test_layers_that_the_model_function_makes_are_the_trained_ones(
    tmp_path: Path,
) -> None:
    def build(mode: str) -> IPUPipelineEstimatorSpec:
        training = mode == "train"
        dense, dropout = keras.layers.Dense(1), keras.layers.Dropout(0.5)

        def first(features: Any, labels: Any) -> Any:
            return dropout(dense(features), training=training), labels

        def second(hidden: Any, labels: Any) -> Any:
            return tf.reduce_mean(hidden) + 0.0 * tf.cast(labels[0], tf.float32)

        return IPUPipelineEstimatorSpec(
            mode,
            [first, second],
            4,
            eval_metrics_fn=lambda loss: {"loss": loss},
            optimizer_function=lambda loss: OptimizerFunctionOutput(
                v1.train.GradientDescentOptimizer(0.1), loss
            ),
        )

    estimator = pipeline_estimator(tmp_path, build, loop=8)
    estimator.train(batches, steps=8)
    kernel = estimator.get_variable_value("dense/kernel")
    bias = estimator.get_variable_value("dense/bias")
    results = estimator.evaluate(batches, steps=8)
    assert results["loss"] == pytest.approx(np.mean(FEATURES @ kernel + bias), rel=1e-5)


def test_labels_reach_the_stage_that_takes_them_in_prediction(tmp_path: Path) -> None:
    def build(mode: str) -> IPUPipelineEstimatorSpec:
        def first(features: Any, labels: Any) -> Any:
            return tf.reduce_sum(features, axis=1), labels

        def second(sums: Any, labels: Any) -> Any:
            return {"sums": sums, "labels": labels}

        return IPUPipelineEstimatorSpec(mode, [first, second], 4)

    estimator = pipeline_estimator(tmp_path, build, loop=8)
    predictions = list(estimator.predict(batches, num_predictions=64))
    assert [item["labels"] for item in predictions] == LABELS.tolist()
    sums = [item["sums"] for item in predictions]
    np.testing.assert_allclose(sums, FEATURES.sum(axis=1), rtol=1e-6)


def test_a_learning_rate_follows_the_global_step_of_the_pipeline(
    tmp_path: Path,
) -> None:
    def build(mode: str) -> IPUPipelineEstimatorSpec:
        def first(features: Any, labels: Any) -> Any:
            return features, labels

        def second(features: Any, labels: Any) -> Any:
            weight = v1.get_variable("w", [], initializer=v1.zeros_initializer())
            return weight + 0.0 * tf.reduce_sum(features)

        def update(loss: Any) -> OptimizerFunctionOutput:
            rate = tf.cast(v1.train.get_global_step() + 1, tf.float32)
            return OptimizerFunctionOutput(
                v1.train.GradientDescentOptimizer(rate), loss
            )

        return IPUPipelineEstimatorSpec(
            mode, [first, second], 4, optimizer_function=update
        )

    estimator = pipeline_estimator(tmp_path, build, loop=8)
    estimator.train(batches, steps=16)
    # Four micro-batches with a gradient of 1 make an update, at steps 0, 4, 8 and 12.
    assert estimator.get_variable_value("w") == -4 * (1 + 5 + 9 + 13)
    assert estimator.get_variable_value("global_step") == 16


def test_older_options_count_whole_pipeline_runs(tmp_path: Path) -> None:
    options = auto_select_ipus(create_ipu_config(), 2)
    config = RunConfig(
        IPURunConfig(3, options, num_shards=2),
        model_dir=str(tmp_path),
        tf_random_seed=3,
    )
    estimator = IPUPipelineEstimator(pipeline_model_fn(4), config=config)
    estimator.train(batches, steps=3)
    assert estimator.get_variable_value("global_step") == 3
    runs = pipeline_estimator(tmp_path / "new", pipeline_model_fn(4), loop=12)
    runs.train(batches, steps=12)
    for one, other in zip(weights(estimator), weights(runs), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_loop_must_hold_whole_pipeline_runs(tmp_path: Path) -> None:
    estimator = pipeline_estimator(tmp_path, pipeline_model_fn(4), loop=6)
    with pytest.raises(ValueError, match=r"\(6\) must be a multiple of .* \(4\)"):
        estimator.train(batches, steps=6)


def test_the_count_must_suit_the_schedule(tmp_path: Path) -> None:
    estimator = pipeline_estimator(tmp_path, pipeline_model_fn(6), loop=6)
    with pytest.raises(tf.errors.FailedPreconditionError, match="multiple of 4"):
        estimator.train(batches, steps=6)


def test_stages_must_match_the_shards(tmp_path: Path) -> None:
    config = run_config(tmp_path, 8, shards=4)
    with pytest.raises(ValueError, match="num_shards is 4; it must be 2"):
        IPUPipelineEstimator(pipeline_model_fn(4), config=config).train(
            batches, steps=8
        )


def test_interleaved_training_refuses_shared_ipus(tmp_path: Path) -> None:
    function = pipeline_model_fn(
        4, pipeline_schedule=PipelineSchedule.Interleaved, device_mapping=[0, 0]
    )
    config = run_config(tmp_path, 8)
    with pytest.raises(NotImplementedError, match="Interleaved"):
        IPUPipelineEstimator(function, config=config).train(batches, steps=8)


def test_recomputation_modes_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    function = pipeline_model_fn(
        4,
        pipeline_schedule=PipelineSchedule.Sequential,
        recomputation_mode=RecomputationMode.RecomputeThenBackpropagate,
    )
    estimator = pipeline_estimator(tmp_path, function, recompute=True)
    with pytest.raises(tf.errors.UnimplementedError, match="Sequential"):
        estimator.train(batches, steps=8)


@pytest.mark.parametrize(
    ("mode", "options", "match"),
    [
        ("train", {"gradient_accumulation_count": 4}, "optimizer_function"),
        ("eval", {"gradient_accumulation_count": 4}, "eval_metrics_fn"),
        ("infer", {}, "gradient_accumulation_count"),
        (
            "infer",
            {"gradient_accumulation_count": 4, "accumulate_outfeed": True},
            "accumulate_outfeed",
        ),
    ],
)
def test_incomplete_specs_are_refused(mode: str, options: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        IPUPipelineEstimatorSpec(mode, [lambda x: x, lambda x: x], **options)


def test_model_fn_must_not_take_features(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must not take features"):
        IPUPipelineEstimator(
            lambda features, mode: None,  # type: ignore[arg-type,misc]
            config=run_config(tmp_path, 8),
        )


def test_nothing_is_written_when_a_rule_is_broken(tmp_path: Path) -> None:
    estimator = pipeline_estimator(tmp_path / "m", pipeline_model_fn(4), loop=6)
    with pytest.raises(ValueError, match="must be a multiple"):
        estimator.train(batches, steps=6)
    assert not (tmp_path / "m").exists()
