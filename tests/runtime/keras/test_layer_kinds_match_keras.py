"""Every layer kind that can be planned has Keras' shapes and weights."""

from __future__ import annotations

import inspect
import os
from typing import Any

import numpy as np
import pytest

from ipu_runtime.plan.layers.activations import KNOWN_ACTIVATIONS
from ipu_runtime.plan.layers.shapes import LAYER_KINDS, resolve_model
from ipu_runtime.plan.model.model_spec import LayerSpec

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
keras = pytest.importorskip("keras")
pytestmark = pytest.mark.slow

IMAGE, ROW, WORDS = (13, 10, 6), (20,), (7, 12)

CASES: list[tuple[str, dict[str, Any], tuple[tuple[int, ...], ...]]] = [
    ("Dense", {"units": 5}, (ROW,)),
    ("Dense", {"units": 5, "use_bias": False, "activation": "relu"}, (WORDS,)),
    ("Conv2D", {"filters": 8, "kernel_size": 3}, (IMAGE,)),
    (
        "Conv2D",
        {
            "filters": 8,
            "kernel_size": [5, 3],
            "strides": [2, 3],
            "padding": "same",
            "use_bias": False,
            "activation": "gelu",
        },
        (IMAGE,),
    ),
    ("Conv2D", {"filters": 9, "kernel_size": 3, "groups": 3, "strides": 2}, (IMAGE,)),
    ("Conv2D", {"filters": 4, "kernel_size": 3, "dilation_rate": 2}, (IMAGE,)),
    ("DepthwiseConv2D", {"kernel_size": 3}, (IMAGE,)),
    (
        "DepthwiseConv2D",
        {"kernel_size": 3, "depth_multiplier": 2, "strides": 2, "padding": "same"},
        (IMAGE,),
    ),
    ("MaxPooling2D", {}, (IMAGE,)),
    ("MaxPooling2D", {"pool_size": 3, "strides": 2, "padding": "same"}, (IMAGE,)),
    ("AveragePooling2D", {"pool_size": [3, 2]}, (IMAGE,)),
    ("GlobalAveragePooling2D", {}, (IMAGE,)),
    ("GlobalAveragePooling2D", {"keepdims": True}, (IMAGE,)),
    ("Flatten", {}, (IMAGE,)),
    ("Reshape", {"target_shape": [5, -1, 3]}, (IMAGE,)),
    ("Permute", {"dims": [3, 1, 2]}, (IMAGE,)),
    ("ZeroPadding2D", {}, (IMAGE,)),
    ("ZeroPadding2D", {"padding": [[1, 2], [0, 3]]}, (IMAGE,)),
    ("Dropout", {"rate": 0.3}, (ROW,)),
    ("Activation", {"activation": "tanh"}, (ROW,)),
    ("ReLU", {"max_value": 6.0}, (IMAGE,)),
    ("Softmax", {}, (ROW,)),
    ("Rescaling", {"scale": 0.5}, (IMAGE,)),
    ("BatchNormalization", {}, (IMAGE,)),
    ("BatchNormalization", {"center": False, "axis": 1}, (IMAGE,)),
    ("LayerNormalization", {}, (WORDS,)),
    ("LayerNormalization", {"axis": [1, 2], "scale": False}, (WORDS,)),
    ("Embedding", {"input_dim": 30, "output_dim": 4}, ((7,),)),
    ("LSTM", {"units": 5}, (WORDS,)),
    ("LSTM", {"units": 5, "return_sequences": True, "use_bias": False}, (WORDS,)),
    ("MultiHeadAttention", {"num_heads": 3, "key_dim": 4}, (WORDS, WORDS)),
    (
        "MultiHeadAttention",
        {
            "num_heads": 2,
            "key_dim": 4,
            "value_dim": 5,
            "use_bias": False,
            "output_shape": 9,
        },
        (WORDS, (11, 8), (11, 6)),
    ),
    ("Add", {}, (IMAGE, IMAGE, IMAGE)),
    ("Add", {}, (IMAGE, (1, 1, 6))),
    ("Concatenate", {}, (IMAGE, (13, 10, 2))),
    ("Concatenate", {"axis": 1}, (IMAGE, (2, 10, 6))),
]


def keras_layer(kind: str, settings: dict[str, Any]) -> Any:
    listed = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in settings.items()
    }
    return getattr(keras.layers, kind)(**listed)


@pytest.mark.parametrize(
    ("kind", "settings", "inputs"),
    CASES,
    ids=[f"{index}-{case[0]}" for index, case in enumerate(CASES)],
)
def test_shape_and_weights_are_those_of_keras(
    kind: str, settings: dict[str, Any], inputs: tuple[tuple[int, ...], ...]
) -> None:
    names = tuple(f"in{index}" for index in range(len(inputs)))
    layers = [
        LayerSpec(name, "Input", {"shape": list(shape)})
        for name, shape in zip(names, inputs, strict=True)
    ]
    model, problems = resolve_model([*layers, LayerSpec("x", kind, settings, names)])
    assert problems == ()
    assert model is not None
    ours = model.layers[-1]

    dtype = "int32" if kind == "Embedding" else "float32"
    tensors = [keras.Input(shape, dtype=dtype) for shape in inputs]
    layer = keras_layer(kind, settings)
    if kind == "MultiHeadAttention":
        output = layer(*tensors)
    else:
        output = layer(tensors if len(tensors) > 1 else tensors[0])

    def sizes(weights: Any) -> list[tuple[int, ...]]:
        return [tuple(weight.shape) for weight in weights]

    assert tuple(output.shape[1:]) == ours.output_shape
    trained = [weight.shape for weight in ours.weights if weight.trainable]
    others = [weight.shape for weight in ours.weights if not weight.trainable]
    assert trained == sizes(layer.trainable_weights)
    assert others == sizes(layer.non_trainable_weights)
    assert ours.parameters == layer.count_params()


def test_every_kind_has_a_case() -> None:
    assert {case[0] for case in CASES} == set(LAYER_KINDS) - {"Input"}


@pytest.mark.parametrize("kind", sorted(set(LAYER_KINDS) - {"Input"}))
def test_settings_and_defaults_are_those_of_keras(kind: str) -> None:
    arguments = inspect.signature(getattr(keras.layers, kind).__init__).parameters
    for name, setting in LAYER_KINDS[kind].own_settings.items():
        argument = arguments[name]
        assert setting.required == (argument.default is inspect.Parameter.empty)
        if not setting.required and argument.default is not None:
            assert setting.read(setting.default) == setting.read(argument.default)


def test_known_activations_are_those_of_keras() -> None:
    offered = {
        name
        for name, value in vars(keras.activations).items()
        if inspect.isfunction(value) and name not in ("deserialize", "serialize", "get")
    }
    assert set(KNOWN_ACTIVATIONS) == offered


def test_multiply_adds_of_a_convolution_are_counted_by_running_it() -> None:
    spec = LayerSpec(
        "x", "Conv2D", {"filters": 4, "kernel_size": 3, "strides": 2}, ("in",)
    )
    model, _ = resolve_model([LayerSpec("in", "Input", {"shape": [9, 9, 2]}), spec])
    assert model is not None
    layer = keras_layer("Conv2D", dict(spec.settings))
    ones = np.ones((1, 9, 9, 2), "float32")
    layer.build(ones.shape)
    layer.set_weights(
        [np.ones(w.shape, "float32") for w in layer.get_weights()[:1]]
        + [np.zeros(4, "float32")]
    )
    # With ones everywhere, every multiply-add contributes one to the sum.
    assert 2 * float(np.sum(layer(ones))) == model.layers[-1].flops
