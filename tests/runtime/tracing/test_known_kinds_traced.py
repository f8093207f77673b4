"""What is traced of a layer that the plan knows is what its kind lists."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ipu_runtime.plan.costs.layer_costs import sum_ops
from ipu_runtime.plan.costs.op_costs import Costing, OpCost
from ipu_runtime.plan.costs.operation_costs import cost_operation
from ipu_runtime.plan.layers.shapes import (
    LAYER_KINDS,
    backward_operations,
    forward_operations,
    model_of,
)
from ipu_runtime.plan.model.model_spec import Layer, LayerSpec, ModelSpec
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.request import PlanRequest
from tests.runtime.small_presets import NARROW, small_preset

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
keras = pytest.importorskip("keras")
pytestmark = pytest.mark.slow

COST = Costing(1472, 624 * 1024, 64, 16, half=False)
IMAGE, ROW, WORDS = (28, 28, 64), (256,), (64, 128)

TYPICAL: dict[str, tuple[dict[str, Any], tuple[tuple[int, ...], ...]]] = {
    "Dense": ({"units": 512, "activation": "gelu"}, (WORDS,)),
    "Flatten": ({}, (IMAGE,)),
    "Reshape": ({"target_shape": (784, 64)}, (IMAGE,)),
    "Permute": ({"dims": (3, 1, 2)}, (IMAGE,)),
    "Conv2D": ({"filters": 128, "kernel_size": 3, "activation": "relu"}, (IMAGE,)),
    "DepthwiseConv2D": ({"kernel_size": 3, "strides": 2}, (IMAGE,)),
    "ZeroPadding2D": ({"padding": 2}, (IMAGE,)),
    "MaxPooling2D": ({"pool_size": 3, "strides": 2}, (IMAGE,)),
    "AveragePooling2D": ({"pool_size": 2}, (IMAGE,)),
    "GlobalAveragePooling2D": ({}, (IMAGE,)),
    "Activation": ({"activation": "tanh"}, (IMAGE,)),
    "ReLU": ({}, (IMAGE,)),
    "Softmax": ({}, (WORDS,)),
    "Dropout": ({"rate": 0.3}, (ROW,)),
    "Rescaling": ({"scale": 0.5, "offset": 1.0}, (IMAGE,)),
    "Add": ({}, (IMAGE, IMAGE)),
    "Concatenate": ({}, (IMAGE, (28, 28, 32))),
    "BatchNormalization": ({}, (IMAGE,)),
    "LayerNormalization": ({}, (WORDS,)),
    "Embedding": ({"input_dim": 1000, "output_dim": 64}, ((64,),)),
    "LSTM": ({"units": 80}, (WORDS,)),
    "MultiHeadAttention": (
        {"num_heads": 4, "key_dim": 32, "dropout": 0.1},
        (WORDS, WORDS),
    ),
}

OTHERWISE = {
    "Embedding": (1, "Keras 3 first lets negative numbers count from the end"),
    "MultiHeadAttention": (1, "adds up the gradients of what it takes twice"),
}
"""Passes that a trace has and the kind has not, with what they do."""


def built(kind: str) -> Any:
    settings, shapes = TYPICAL[kind]
    dtype = "int32" if kind == "Embedding" else "float32"
    inputs = [keras.Input(shape, dtype=dtype) for shape in shapes]
    layer = getattr(keras.layers, kind)(**settings)
    several = kind in ("Add", "Concatenate")
    return keras.Model(inputs, layer(inputs) if several else layer(*inputs))


def traced_entirely(model: Any, known: ModelSpec) -> ModelSpec:
    """Read a model as if the plan knew no layer kind."""
    from ipu_runtime.engine.describe.layer_tracer import trace_layer
    from ipu_runtime.engine.describe.model_graph import model_graph
    from ipu_runtime.engine.describe.repeatable_call import call_of_node

    calls = {call.name: call for call in model_graph(model).calls}
    layers = [
        trace_layer(call_of_node(calls[layer.name]), layer.spec, known.dtype)
        if layer.name in calls
        else layer
        for layer in known.layers
    ]
    traced, problems = model_of(layers, known.dtype)
    assert traced is not None, problems
    return traced


def costs(layer: Layer, batch: int, input_gradient: bool) -> list[OpCost]:
    ops = (
        *forward_operations(layer, True),
        *backward_operations(layer, input_gradient),
    )
    return [cost_operation(op, batch, COST) for op in ops]


def test_every_kind_has_a_typical_layer() -> None:
    assert set(TYPICAL) == set(LAYER_KINDS) - {"Input"}


@pytest.mark.parametrize("kind", sorted(TYPICAL))
def test_a_trace_costs_what_the_kind_costs(kind: str) -> None:
    from ipu_runtime.engine.describe.keras_reader import read_model

    model = built(kind)
    known = read_model(model)
    own = known.layers[-1]
    traced = traced_entirely(model, known).layers[-1]
    assert own.traced is None
    assert traced.traced is not None
    assert traced.traced.remarks == ()
    assert traced.flops == own.flops
    assert traced.output_shape == own.output_shape
    assert [weight.shape for weight in traced.weights] == [
        weight.shape for weight in own.weights
    ]
    for batch, input_gradient in ((4, True), (16, True), (16, False)):
        listed = costs(own, batch, input_gradient)
        read = costs(traced, batch, input_gradient)
        passes, _ = OTHERWISE.get(kind, (0, ""))
        more = len(read) - len(listed)
        assert more <= passes
        assert sum_ops(read).supersteps == sum_ops(listed).supersteps + more
        if not more:
            assert sum_ops(read).work == pytest.approx(sum_ops(listed).work, rel=1e-9)


@pytest.mark.parametrize("name", sorted(NARROW))
def test_a_whole_model_traced_costs_about_the_same(name: str, tmp_path: Path) -> None:
    from ipu_runtime.engine.describe.keras_reader import read_model
    from workbench.runs.model_builder import build_keras_model

    model = build_keras_model(small_preset(name, tmp_path))
    known = read_model(model)
    traced = traced_entirely(model, known)
    assert all(layer.traced is None for layer in known.layers)
    assert traced.parameters == known.parameters == model.count_params()
    times, bytes_kept = [], []
    for spec in (known, traced):
        plan = make_plan(PlanRequest(spec, batch_size=16, batches=10, system="POD16"))
        times.append(sum(item.forward_us + item.backward_us for item in plan.layers))
        bytes_kept.append(sum(item.stash_bytes for item in plan.layers))
    # Attention to itself adds three gradients at once, where kinds add two and two.
    assert times[1] == pytest.approx(times[0], rel=0.01)
    # Keras' gelu and normalisations keep values between their operations.
    assert 0.9 * bytes_kept[0] < bytes_kept[1] < 1.6 * bytes_kept[0]


def test_a_layer_of_the_same_name_is_not_taken_for_the_known_kind() -> None:
    from ipu_runtime.engine.describe.keras_reader import known_layer
    from ipu_runtime.engine.describe.model_graph import model_graph
    from ipu_runtime.engine.describe.repeatable_call import call_of_node

    class Dense(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return x * 2

    inputs = keras.Input(ROW)
    (call,) = model_graph(keras.Model(inputs, Dense()(inputs))).calls
    spec = LayerSpec("dense", "Dense", {"units": 256}, ("in",))
    assert known_layer(call_of_node(call), spec) is None
