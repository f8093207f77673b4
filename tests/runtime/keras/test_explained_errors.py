"""Errors of the device say below their traceback what would help, planned."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.config import IPUConfig
from ipu_runtime.ipu_strategy import IPUStrategy

pytestmark = pytest.mark.slow


def strategy(ipus: int) -> IPUStrategy:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    return IPUStrategy()


def notes_of(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


def test_a_model_that_is_too_large_names_what_was_tried() -> None:
    with strategy(1).scope():
        layers = [keras.layers.Conv2D(128, 3, padding="same") for _ in range(6)]
        model = keras.Sequential([keras.Input((64, 64, 3)), *layers])
        model.compile("adam", "mse")
    x, y = np.zeros((32, 64, 64, 3), "float32"), np.zeros((32, 64, 64, 128), "float16")
    with pytest.raises(tf.errors.ResourceExhaustedError) as failure:
        model.fit(x, y, batch_size=32)
    problem, tried = notes_of(failure.value)
    assert problem.startswith("ipu_runtime: IPU 0 does not fit")
    assert "data.batch_size = " in tried
    assert "ipu.allow_recompute = true" in tried


def pipelined(ipus: int, accumulation: int, per_execution: int) -> Any:
    with strategy(ipus).scope():
        layers = [keras.layers.Dense(8) for _ in range(4)]
        model = keras.Sequential([keras.Input((4,)), *layers])
        model.set_pipeline_stage_assignment([0, 1, 2, 3])
        model.set_pipelining_options(accumulation)
        model.compile("sgd", "mse", steps_per_execution=per_execution)
    return model


@pytest.mark.parametrize(
    ("counts", "remedy"),
    [
        ((2, 8, 16), "ipu.auto_select_ipus = 4 runs"),
        ((4, 8, 24), "execution.steps_per_execution = 16 runs"),
        ((4, 8, 10), "execution.steps_per_execution = 8 runs"),
        (
            (4, 6, 12),
            "execution.gradient_accumulation = 8, execution.steps_per_execution = 8 "
            "runs",
        ),
    ],
)
def test_wrong_counts_name_right_ones(
    counts: tuple[int, int, int], remedy: str
) -> None:
    model = pipelined(*counts)
    data = np.zeros((64, 4), "float32"), np.zeros((64, 8), "float32")
    with pytest.raises(ValueError, match=r"IPUs|steps_per_execution") as failure:
        model.fit(*data, batch_size=2)
    (planned,) = notes_of(failure.value)
    assert planned.startswith(f"ipu_runtime: planned: {remedy}, ")


def test_an_error_that_is_not_of_the_device_is_left_as_it_is() -> None:
    with strategy(1).scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    dataset = tf.data.Dataset.from_tensor_slices(np.zeros((6, 4), "float32"))
    pairs = dataset.map(lambda x: (x, x[:1])).batch(4)
    with pytest.raises(ValueError, match="not fully defined") as failure:
        model.fit(pairs)
    assert notes_of(failure.value) == []
