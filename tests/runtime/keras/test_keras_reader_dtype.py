"""The plan sees the type that a model's layers compute in."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_model_of_fp16_layers_is_planned_in_fp16(dtype: str) -> None:
    import keras

    from ipu_runtime.engine.describe.keras_reader import read_model

    inputs = keras.Input((4,))
    outputs = keras.layers.Dense(3, dtype=dtype)(inputs)
    assert read_model(keras.Model(inputs, outputs)).dtype == dtype
