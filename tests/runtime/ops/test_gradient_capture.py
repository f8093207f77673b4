"""Gradients that are captured on their way: tapes, pipelines and Keras layers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.eager.backprop import (
    GradientCaptureContext,
    GradientCaptureTape,
    num_gradient_collection_tapes,
)
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.keras import PipelineStage
from ipu_runtime.keras.layers import (
    CaptureActivationGradients,
    CaptureUpstreamGradients,
)
from ipu_runtime.ops.grad_util_ops import capture_upstream_gradients
from ipu_runtime.ops.pipelining_ops import PipelineSchedule
from ipu_runtime.pipelining.pipeline_op import OptimizerFunctionOutput, pipeline
from tests.runtime.ops.replicated import configure

pytestmark = pytest.mark.slow


def _slope(x: float) -> float:
    return float(1 - np.tanh(x) ** 2)


def test_a_tape_captures_what_comes_from_above() -> None:
    x = tf.Variable(0.5)
    with GradientCaptureTape() as tape:
        marked = capture_upstream_gradients({"a": x**2, "b": x}, tag="both")
        y = tf.tanh(marked["a"]) + 3 * marked["b"]
        assert num_gradient_collection_tapes() == 1
    assert num_gradient_collection_tapes() == 0
    np.testing.assert_allclose(y, np.tanh(0.25) + 1.5, rtol=1e-6)
    gradient = tape.gradient(y, x)
    np.testing.assert_allclose(gradient, _slope(0.25) + 3, rtol=1e-6)
    captured = tape.captured_gradients
    np.testing.assert_allclose(captured["both"], [_slope(0.25), 3], rtol=1e-6)
    with pytest.raises(ValueError, match="read only"):
        tape.captured_gradients = {}


def test_a_context_captures_inside_a_function() -> None:
    x = tf.Variable(0.5)

    @tf.function(jit_compile=True)
    def run() -> Any:
        with GradientCaptureContext() as context:
            y = tf.tanh(capture_upstream_gradients(x * 2, tag="tanh"))
            gradients = tf.gradients(y, [x.handle])
        return gradients, context.captured_gradients

    configure(1)
    (gradient,), captured = IPUStrategy().run(run)
    np.testing.assert_allclose(captured["tanh"], [_slope(1.0)], rtol=1e-6)
    np.testing.assert_allclose(gradient, 2 * _slope(1.0), rtol=1e-6)


def test_a_gradient_without_a_scope_or_with_a_used_tag_is_refused() -> None:
    x = tf.Variable(1.0)
    with tf.GradientTape() as plain:
        y = capture_upstream_gradients(x, tag="t")
    with pytest.raises(RuntimeError, match="may only be used within the context of"):
        plain.gradient(y, x)
    with GradientCaptureTape() as tape:
        y = capture_upstream_gradients(x, "t") + capture_upstream_gradients(x, "t")
    with pytest.raises(ValueError, match="tag 't' has been captured already"):
        tape.gradient(y, x)

    @tf.function
    def loop() -> Any:
        with GradientCaptureTape() as tape:
            y = tf.convert_to_tensor(x)
            while y < 9.0:
                y = 2 * capture_upstream_gradients(y, "loop")
        return tape.gradient(y, x)

    with pytest.raises(NotImplementedError, match="inside of a loop"):
        loop()


@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize("with_tape", [True, False])
def test_a_pipeline_sends_captured_gradients_to_their_outfeed(
    with_tape: bool, accumulate: bool
) -> None:
    configure(2)
    x, optimizer = tf.Variable(0.3), keras.optimizers.SGD(0.1)
    losses, outfeed = IPUOutfeedQueue(), IPUOutfeedQueue()
    scope = GradientCaptureTape if with_tape else GradientCaptureContext

    def first() -> Any:
        return tf.tanh(capture_upstream_gradients(x, tag="stage_0"))

    def second(y: Any) -> Any:
        return tf.tanh(capture_upstream_gradients(y, tag="stage_1"))

    @tf.function(jit_compile=True)
    def run() -> None:
        with scope() as capture:
            source = (
                {"tape": capture}
                if with_tape
                else {"variables": [x], "gradient_capture_context": capture}
            )
            pipeline(
                [first, second],
                4,
                gradient_accumulation_for_captured_grads=accumulate,
                inputs=[],
                optimizer_function=lambda loss: OptimizerFunctionOutput(
                    optimizer,
                    loss,
                    captured_gradient_outfeed=outfeed,
                    **source,
                ),
                outfeed_queue=losses,
                pipeline_schedule=PipelineSchedule.Grouped,
            )

    IPUStrategy().run(run)
    captured = outfeed.dequeue()
    times = 4 if accumulate else 1
    inner = _slope(np.tanh(0.3))
    np.testing.assert_allclose(captured["stage_1"][0], [times * inner], rtol=1e-5)
    np.testing.assert_allclose(
        captured["stage_0"][0], [times * inner * _slope(0.3)], rtol=1e-5
    )
    np.testing.assert_allclose(x, 0.3 - 0.1 * 4 * inner * _slope(0.3), rtol=1e-5)


def test_sources_of_captured_gradients_are_checked() -> None:
    loss, optimizer = tf.constant(1.0), keras.optimizers.SGD()
    with pytest.raises(TypeError, match="`gradient_capture_context`"):
        OptimizerFunctionOutput(optimizer, loss, gradient_capture_context=1)
    with pytest.raises(TypeError, match="`captured_gradient_outfeed`"):
        OptimizerFunctionOutput(
            optimizer,
            loss,
            gradient_capture_context=GradientCaptureContext(),
            captured_gradient_outfeed=1,
        )
    with pytest.raises(ValueError, match="needs a `gradient_capture_context`"):
        OptimizerFunctionOutput(
            optimizer,
            loss,
            tape=tf.GradientTape(),
            captured_gradient_outfeed=IPUOutfeedQueue(),
        )


class CapturingSGD(keras.optimizers.SGD):
    """Sends what it gets to the host."""

    def __init__(self, outfeed: Any) -> None:
        super().__init__(0.1)
        self.outfeed = outfeed

    def apply_gradients(
        self, grads_and_vars: Any, captured_grads: Any = None, **kwargs: Any
    ) -> Any:
        assert captured_grads
        self.outfeed.enqueue_more(captured_grads)
        return super().apply_gradients(grads_and_vars, **kwargs)


X = np.array([[1.0, 2.0], [3.0, -4.0], [0.5, 0.5], [2.0, 1.0]], np.float32)
KERNEL = np.array([[0.5, -0.2], [0.1, 0.4]], np.float32)


def _dense(wrapper: Any, tag: str | None, activation: str | None) -> Any:
    return wrapper(
        keras.layers.Dense(2, activation=activation, use_bias=False, name="inner"), tag
    )


def _gradients(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradients of the mean of tanh(x K)^2, after and before the activation."""
    out = np.tanh(x @ KERNEL)
    above = 2 * out / out.size
    return above, above * (1 - out**2)


@pytest.mark.parametrize(
    ("wrapper", "tag", "key", "place"),
    [
        (CaptureUpstreamGradients, None, "inner_cug", 0),
        (CaptureUpstreamGradients, "above", "above", 0),
        (CaptureActivationGradients, None, "inner_cag_activation", 1),
        (CaptureActivationGradients, "in", "in_activation", 1),
    ],
)
def test_keras_layers_hand_gradients_to_the_optimizer(
    wrapper: Any, tag: str | None, key: str, place: int
) -> None:
    configure(1)
    outfeed = IPUOutfeedQueue()
    with IPUStrategy().scope():
        inputs = keras.Input((2,))
        outputs = _dense(wrapper, tag, "tanh")(inputs)
        model = keras.Model(inputs, outputs)
        model.set_weights([KERNEL])
        model.compile(CapturingSGD(outfeed), "mse")
        model.fit(X[:2], 0 * X[:2], batch_size=2, verbose=0, shuffle=False)
    captured = outfeed.dequeue()
    assert list(captured) == [key]
    expected = _gradients(X[:2])
    np.testing.assert_allclose(captured[key][0][0], expected[place], rtol=1e-5)
    step = X[:2].T @ expected[1]
    np.testing.assert_allclose(model.get_weights()[0], KERNEL - 0.1 * step, rtol=1e-5)


@pytest.mark.parametrize("accumulate", [False, True])
def test_pipelined_layers_hand_over_the_last_micro_batch_or_all(
    accumulate: bool,
) -> None:
    configure(2)
    outfeed = IPUOutfeedQueue()
    with IPUStrategy().scope():
        inputs = keras.Input((2,))
        with PipelineStage(0):
            hidden = _dense(CaptureUpstreamGradients, "first", "tanh")(inputs)
        with PipelineStage(1):
            outputs = keras.layers.Activation("linear")(hidden)
        model = keras.Model(inputs, outputs)
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=4,
            gradient_accumulation_for_captured_grads=accumulate,
        )
        model.set_weights([KERNEL])
        model.compile(CapturingSGD(outfeed), "mse", steps_per_execution=4)
        model.fit(X, 0 * X, batch_size=1, verbose=0, shuffle=False)
    captured = outfeed.dequeue()["first"][0][0]
    single = [_gradients(row[None]) for row in X]
    expected = sum(item[0] for item in single) if accumulate else single[-1][0]
    np.testing.assert_allclose(captured, expected, rtol=1e-5)
    step = sum(row[None].T @ item[1] for row, item in zip(X, single, strict=True))
    np.testing.assert_allclose(model.get_weights()[0], KERNEL - 0.1 * step, rtol=1e-4)


def test_accumulated_updates_hand_over_the_last_micro_batch() -> None:
    configure(1)
    outfeed = IPUOutfeedQueue()
    with IPUStrategy().scope():
        inputs = keras.Input((2,))
        outputs = _dense(CaptureUpstreamGradients, "t", "tanh")(inputs)
        model = keras.Model(inputs, outputs)
        model.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=2
        )
        model.set_weights([KERNEL])
        model.compile(CapturingSGD(outfeed), "mse", steps_per_execution=2)
        model.fit(X, 0 * X, batch_size=2, verbose=0, shuffle=False)
    captured = outfeed.dequeue()["t"][0]
    assert captured.shape == (1, 2, 2)
    np.testing.assert_allclose(captured[0], _gradients(X[2:])[0], rtol=1e-5)


def test_capturing_layers_are_checked_saved_and_made_again() -> None:
    with pytest.raises(ValueError, match=r"wraps a keras.layers.Layer"):
        CaptureActivationGradients("dense")
    with pytest.raises(ValueError, match="no activation function"):
        CaptureActivationGradients(keras.layers.Flatten())
    assert CaptureActivationGradients.layer_is_supported(keras.layers.Dense(1))
    assert not CaptureActivationGradients.layer_is_supported(keras.layers.Flatten())
    for wrapper in (CaptureActivationGradients, CaptureUpstreamGradients):
        layer = wrapper(keras.layers.Dense(3, activation="relu"), tag="t")
        again = wrapper.from_config(layer.get_config())
        assert again.tag == again.name == "t"
        assert again.get_config() == layer.get_config()
        x = np.ones((1, 2), np.float32)
        layer(x)
        again(x)
        again.set_weights(layer.get_weights())
        np.testing.assert_allclose(again(x), layer(x))
