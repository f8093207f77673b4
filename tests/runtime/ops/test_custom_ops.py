"""Python functions in place of compiled operations, wherever programs run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime import ipu_compiler, register_custom_op, scopes
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_runtime.ipu_strategy import IPUStrategy
from ipu_runtime.ops import custom_ops
from ipu_runtime.pipelining.pipeline_op import OptimizerFunctionOutput, pipeline
from ipu_runtime.system import custom_op_libraries
from tests.runtime.ops.replicated import configure, on_replicas

pytestmark = pytest.mark.slow
v1 = tf.compat.v1

VECTOR = {"output_types": [tf.float32], "output_shapes": [tf.TensorShape([3])]}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custom_op_libraries, "_functions", {})

    @register_custom_op("libcube.so", "Build")
    def cube(x: Any, attributes: str) -> Any:
        return x**3 + float(attributes or 0)

    @register_custom_op("libscale.so", "Callback", gradient=scale_gradient)
    def scale(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        assert isinstance(x, np.ndarray)
        return x * y


def scale_gradient(gradients: Any, inputs: Any, outputs: Any, attributes: str) -> Any:
    (upstream,), (x, y) = gradients, inputs
    np.testing.assert_allclose(outputs[0], x * y)
    factor = float(attributes or 1)
    return [upstream * y * factor, upstream * x * factor]


def _cube(x: Any, **options: Any) -> Any:
    (result,) = custom_ops.precompiled_user_op(
        [x], "/opt/some/where/libcube.so", outs=VECTOR, **options
    )
    return result


def _scale(x: Any, y: Any, **options: Any) -> Any:
    (result,) = custom_ops.cpu_user_operation(
        [x, y], "libscale.so", outs=VECTOR, **options
    )
    return result


def test_a_registered_function_stands_in_for_the_operation_and_its_gradient() -> None:
    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = _cube(x, attributes="5")
    np.testing.assert_allclose(y, [6, 13, 32])
    np.testing.assert_allclose(tape.gradient(y, x), [3, 12, 27])


def test_a_registered_gradient_is_used_with_its_attributes() -> None:
    x, y = tf.constant([1.0, 2.0, 3.0]), tf.constant([4.0, 5.0, 6.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        every = _scale(x, y, gradient_attributes="10")
    np.testing.assert_allclose(every, [4, 10, 18])
    to_x, to_y = tape.gradient(every, [x, y])
    np.testing.assert_allclose(to_x, 10 * y)
    np.testing.assert_allclose(to_y, 10 * x)


def test_gradients_can_be_asked_for_one_by_one_and_for_some_inputs() -> None:
    asked: list[int] = []

    def gradient(gradients: Any, inputs: Any, outputs: Any, input_index: int) -> Any:
        asked.append(input_index)
        return gradients[0] * inputs[1 - input_index]

    register_custom_op("libtimes.so", "times", gradient)(lambda x, y: x * y)
    x, y = tf.constant([1.0, 2.0, 3.0]), tf.constant([4.0, 5.0, 6.0])

    def gradients(**options: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            (result,) = custom_ops.precompiled_user_op(
                [x, y],
                "libtimes.so",
                outs=VECTOR,
                op_name="times",
                separate_gradients=True,
                **options,
            )
        return tape.gradient(result, [x, y])

    both = gradients()
    np.testing.assert_allclose(both, [y, x])
    second = gradients(inputs_with_gradients=[1])
    assert second[0] is None
    np.testing.assert_allclose(second[1], x)
    assert asked == [0, 1, 1]


def test_inputs_without_gradients_stay_without() -> None:
    register_custom_op("libtimes.so", "times")(lambda x, y: x * y)
    x, y = tf.constant([1.0, 2.0, 3.0]), tf.constant([4.0, 5.0, 6.0])
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        (result,) = custom_ops.precompiled_user_op(
            [x, y],
            "libtimes.so",
            outs=VECTOR,
            op_name="times",
            inputs_with_gradients=[0],
        )
    to_x, to_y = tape.gradient(result, [x, y])
    np.testing.assert_allclose(to_x, y)
    assert to_y is None


def test_both_kinds_run_in_functions_that_are_compiled_for_replicas() -> None:
    configure(2)

    @tf.function(jit_compile=True)
    def run(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = _scale(_cube(x), x)
        return y, tape.gradient(y, x)

    x = np.array([1, 2, 3], np.float32)
    y, gradient = IPUStrategy().run(run, [tf.constant(x)])
    np.testing.assert_allclose(y, x**4)
    np.testing.assert_allclose(gradient, 4 * x**3)


def test_replicas_of_a_compiled_graph_call_the_function_each() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    results = on_replicas(lambda row: _scale(row, row + 1), rows, 2, times=2)
    np.testing.assert_allclose(results.reshape(4, 3), rows * (rows + 1))


def test_an_operation_without_outputs_is_run_for_its_effect() -> None:
    seen: list[float] = []
    register_custom_op("libtell.so", "Callback")(lambda x: seen.append(float(x)))
    configure(1)
    with tf.Graph().as_default(), scopes.ipu_scope("/device:IPU:0"):
        program = ipu_compiler.compile(
            lambda x: [x, custom_ops.cpu_user_operation([x], "libtell.so")],
            [tf.constant(3.0)],
        )
        with v1.Session() as session:
            assert session.run(program) == [3.0]
    assert seen == [3.0]


def test_pipelines_train_through_custom_operations() -> None:
    """Gradients of four micro-batches of (w x)^3 x, summed over three values each."""
    configure(2)
    rows = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(rows).repeat())
        outfeed = IPUOutfeedQueue()

        def first(x: Any) -> Any:
            weight = v1.get_variable("weight", initializer=0.5, use_resource=True)
            return _cube(weight * x), x

        def second(cubed: Any, x: Any) -> Any:
            return tf.reduce_sum(_scale(cubed, x))

        def update(loss: Any) -> OptimizerFunctionOutput:
            return OptimizerFunctionOutput(
                v1.train.GradientDescentOptimizer(1e-5), loss
            )

        with scopes.ipu_scope("/device:IPU:0"):
            program = ipu_compiler.compile(
                lambda: pipeline(
                    [first, second],
                    4,
                    infeed_queue=infeed,
                    outfeed_queue=outfeed,
                    optimizer_function=update,
                    outfeed_loss=True,
                )
            )
        weight = v1.trainable_variables()[0]
        losses = outfeed.dequeue()
        with v1.Session() as session:
            session.run([infeed.initializer, v1.global_variables_initializer()])
            session.run(program)
            after, found = session.run([weight, losses])
    np.testing.assert_allclose(found, (0.125 * rows**4).sum(axis=1), rtol=1e-6)
    gradient = (3 * 0.25 * rows**4).sum()
    np.testing.assert_allclose(after, 0.5 - 1e-5 * gradient, rtol=1e-6)


def test_keras_models_train_through_custom_operations() -> None:
    configure(1)

    class Cube(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            (result,) = custom_ops.precompiled_user_op(
                [inputs],
                "libcube.so",
                outs={"output_types": [tf.float32], "output_shapes": [[None, 1]]},
            )
            return result

    x = np.array([[1.0], [2.0]], np.float32)
    with IPUStrategy().scope():
        dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        model = keras.Sequential([keras.Input((1,)), dense, Cube()])
        model.compile(keras.optimizers.SGD(1e-3), "mse")
        model.fit(x, 0 * x, batch_size=2, verbose=0)
    gradient = np.mean(2 * x**3 * 3 * x**3)
    np.testing.assert_allclose(dense.kernel, [[1 - 1e-3 * gradient]], rtol=1e-5)


def test_expressions_run_as_python_and_have_no_gradient() -> None:
    a, b = tf.constant([[1.0], [-2.0]]), tf.constant([3.0, 4.0])
    with tf.GradientTape() as tape:
        tape.watch(a)
        result = custom_ops.codelet_expression_op(lambda x, y: abs(x) * y - x, a, b)
    np.testing.assert_allclose(result, [[2, 3], [8, 10]])
    with pytest.raises(LookupError, match="no gradient"):
        tape.gradient(result, a)


def test_a_missing_function_is_asked_for_with_the_way_to_register_it() -> None:
    with pytest.raises(
        NotImplementedError, match=r"register_custom_op\('libcrop.so', 'crop'\)"
    ):
        custom_ops.precompiled_user_op([1.0], "lib/libcrop.so", op_name="crop")
    register_custom_op("libhost.so", "Callback")(lambda x, y: x)
    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        (y,) = custom_ops.cpu_user_operation([x, x], "libhost.so", VECTOR)
    with pytest.raises(NotImplementedError, match="Callback_grad"):
        tape.gradient(y, x)


def test_wrong_results_are_named() -> None:
    with pytest.raises(ValueError, match="returned 1 results; there must be 2"):
        custom_ops.precompiled_user_op(
            [1.0],
            "libcube.so",
            outs={"output_types": ["float32"] * 2, "output_shapes": [[], []]},
        )
    with pytest.raises(ValueError, match=r"shape \(2,\).*must be \(3,\)"):
        _cube(tf.constant([1.0, 2.0]))
    with pytest.raises(ValueError, match="`attributes` must be a str"):
        _cube(tf.constant([1.0, 2.0, 3.0]), attributes=5)


SCRIPT = """
import tensorflow as tf
from tensorflow.python import ipu

outs = {"output_types": [tf.float32], "output_shapes": [[]]}
print(ipu.custom_ops.precompiled_user_op([2.0], "libx.so", outs=outs)[0].numpy())
"""
LIBRARY = """
import ipu_runtime

FACTOR = 21

@ipu_runtime.register_custom_op("libx.so", "Build")
def times(x):
    return x * FACTOR
"""


def _run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("ipu_runtime",), marks=pytest.mark.thorough),
        ("workbench", "exec"),
    ],
)
def test_commands_load_a_file_of_functions_first(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "library.py").write_text(LIBRARY, encoding="utf-8")
    result = _run(*command, "--custom-ops", "library.py", "script.py", cwd=tmp_path)
    assert result.stdout == "42.0\n", result.stderr
    missing = _run(*command, "--custom-ops", "none.py", "script.py", cwd=tmp_path)
    assert missing.returncode == 2
    assert "none.py: no such file for --custom-ops" in missing.stderr
