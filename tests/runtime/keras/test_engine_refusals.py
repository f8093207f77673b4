"""What `fit`, `evaluate` and `predict` refuse before any work is done."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.config import IPUConfig
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.ops.pipelining_ops import PipelineSchedule, RecomputationMode

pytestmark = pytest.mark.slow

X, Y = np.zeros((32, 4), np.float32), np.zeros(32)


def made(
    ipus: int = 1,
    stages: tuple[int, ...] = (),
    compiled: bool = True,
    width: int = 3,
    recompute: bool = False,
    configure: Callable[[Any], None] = lambda model: None,
    **arguments: Any,
) -> Any:
    """Return a model of three layers on a device with so many IPUs."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.allow_recompute = recompute
    config.configure_ipu_system()
    with IPUStrategy().scope():
        model = keras.Sequential(
            [
                keras.Input((4,)),
                keras.layers.Dense(width),
                keras.layers.Dense(width),
                keras.layers.Dense(1),
            ]
        )
        if stages:
            model.set_pipeline_stage_assignment(list(stages))
        configure(model)
        if compiled:
            model.compile("sgd", "mse", **arguments)
    return model


def dataset(batches: int = 8, drop_remainder: bool = True) -> Any:
    """Return a data set of so many batches of four samples."""
    whole = tf.data.Dataset.from_tensor_slices((X[: batches * 4], Y[: batches * 4]))
    return whole.batch(4, drop_remainder=drop_remainder)


def accumulate(count: int) -> Callable[[Any], None]:
    """Return what sets the micro-batches of a pipeline's update."""
    return lambda model: model.set_pipelining_options(count)


def accumulating() -> Any:
    """Return a model whose optimizer accumulates, which Keras 2 had not."""
    model = made(compiled=False)
    model.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2), "mse")
    return model


CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "not compiled": (
        lambda: made(compiled=False).fit(X, Y),
        RuntimeError,
        "must compile your model",
    ),
    "generator": (
        lambda: made().fit(item for item in [(X, Y)]),
        ValueError,
        "from_generator",
    ),
    "partial batch": (
        lambda: made().fit(X[:30], Y[:30], batch_size=4),
        ValueError,
        "partial batch",
    ),
    "no samples": (lambda: made().fit(X[:0], Y[:0]), ValueError, "non-empty"),
    "infinite data": (
        lambda: made().fit(dataset().repeat()),
        ValueError,
        "steps_per_epoch",
    ),
    "unknown size": (
        lambda: made().fit(dataset().filter(lambda x, y: True)),
        ValueError,
        "Could not infer the size",
    ),
    "too little data": (
        lambda: made().fit(dataset(), steps_per_epoch=5, epochs=2),
        ValueError,
        "not have enough data",
    ),
    "open shapes": (
        lambda: made().fit(dataset(drop_remainder=False)),
        ValueError,
        "drop_remainder=True",
    ),
    "no batch for every replica": (
        lambda: made(ipus=16).fit(X, Y, batch_size=4),
        ValueError,
        "all 16 replicas",
    ),
    "steps per execution": (
        lambda: made(ipus=2, steps_per_execution=3).fit(X, Y, batch_size=4),
        ValueError,
        r"must be a divisor of the number of batches \(4\).*to this replica",
    ),
    "steps per execution of a word": (
        lambda: made(steps_per_execution="auto").fit(X, Y, batch_size=4),
        ValueError,
        "`steps_per_execution` to be a positive integer, but received 'auto'",
    ),
    "accumulation of Keras": (
        lambda: accumulating().fit(X, Y, batch_size=4),
        ValueError,
        r"`gradient_accumulation_steps` \(set to 2\).*set_gradient_accumulation",
    ),
    "accumulation unset": (
        lambda: made(2, (0, 0, 1)).fit(X, Y, batch_size=4),
        ValueError,
        "gradient_accumulation_steps_per_replica",
    ),
    "accumulation does not divide": (
        lambda: made(2, (0, 0, 1), configure=accumulate(4)).fit(X, Y, batch_size=4),
        RuntimeError,
        "pipelined model has been configured to use gradient accumulation",
    ),
    "count of a pipeline": (
        lambda: made(2, (0, 0, 1), configure=accumulate(2), steps_per_execution=8).fit(
            X, Y, batch_size=4
        ),
        tf.errors.FailedPreconditionError,
        "multiple of 4, but it is 2",
    ),
    "count of an evaluation": (
        lambda: made(2, (0, 0, 1)).evaluate(X, Y, batch_size=4, verbose=0),
        tf.errors.FailedPreconditionError,
        "multiple of 2, but it is 1",
    ),
    "too few IPUs": (
        lambda: made(2, (0, 1, 2), configure=accumulate(8)).fit(X, Y, batch_size=4),
        ValueError,
        "requires a multiple of 4 IPUs",
    ),
    "one stage": (
        lambda: made(1, (0, 0, 0), configure=accumulate(8), steps_per_execution=8).fit(
            X, Y, batch_size=4
        ),
        ValueError,
        "at least two computational stages",
    ),
    "recomputation mode": (
        lambda: made(
            2,
            (0, 0, 1),
            recompute=True,
            steps_per_execution=8,
            configure=lambda model: model.set_pipelining_options(
                8,
                pipeline_schedule=PipelineSchedule.Sequential,
                recomputation_mode=RecomputationMode.RecomputeThenBackpropagate,
            ),
        ).fit(X, Y, batch_size=4),
        tf.errors.UnimplementedError,
        "Sequential",
    ),
    "unknown argument": (
        lambda: made(
            2,
            (0, 0, 1),
            steps_per_execution=8,
            configure=lambda model: model.set_pipelining_options(8, colour="red"),
        ).fit(X, Y, batch_size=4),
        TypeError,
        "unexpected keyword argument 'colour'",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str) -> None:
    run, error, words = CASES[case]
    with pytest.raises(error, match=words):
        run()


def test_a_model_that_does_not_fit_is_refused_unless_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model --ipu_model_tiles=4")
    model = made(width=900)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="IPU 0 exceeds"):
        model.fit(X, Y, batch_size=4, verbose=0)
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"debug.allowOutOfMemory": "true"}')
    model.fit(X, Y, batch_size=4, verbose=0)


def test_too_many_steps_per_execution_are_lowered_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = made(steps_per_execution=100)
    logger = tf.get_logger()
    logger.propagate = True
    with caplog.at_level(logging.WARNING, logger="tensorflow"):
        history = model.fit(X, Y, batch_size=4, verbose=0)
    assert len(history.epoch) == 1
    assert "lowered to 8" in caplog.text


def test_layers_that_the_plan_does_not_know_are_traced() -> None:
    class Doubled(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            return 2 * inputs

    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with IPUStrategy().scope():
        model = keras.Sequential([keras.Input((4,)), Doubled(), keras.layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=8)
        model.fit(X, Y, batch_size=4, verbose=0)
    profile = model.ipu_profile()
    assert profile.step is not None
    assert profile.planned.plan.layers[0].kind == "Doubled"
    assert profile.planned.plan.layers[0].forward_us > 0


def test_a_model_whose_calls_are_hidden_is_planned_as_one_layer() -> None:
    class Hidden(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inner = keras.layers.Dense(1)

        def call(self, inputs: Any) -> Any:
            return tf.math.abs(self.inner(inputs))

    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with IPUStrategy().scope():
        model = Hidden()
        model.compile("sgd", "mse", steps_per_execution=8)
        model.fit(X, Y, batch_size=4, verbose=0)
    plan = model.ipu_profile().planned.plan
    assert [layer.kind for layer in plan.layers] == ["Hidden"]
    assert plan.layers[0].parameters == model.count_params()


def test_a_model_of_open_extents_is_trained_without_a_plan() -> None:
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    with IPUStrategy().scope():
        inputs = keras.Input((None,))
        total = keras.ops.sum(inputs, axis=-1, keepdims=True)
        model = keras.Model(inputs, keras.layers.Dense(1)(total))
        model.compile("sgd", "mse", steps_per_execution=8)
        model.fit(X, Y, batch_size=4, verbose=0)
    profile = model.ipu_profile()
    assert profile.step is None
    assert "needs every extent" in profile.not_modelled
    assert "not modelled" in str(profile)
