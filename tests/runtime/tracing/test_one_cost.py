"""A computation costs the same however it is written: only its operations count."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ipu_runtime.plan.layers.shapes import backward_operations, forward_operations
from ipu_runtime.plan.model.operations import OpKind
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.request import PlanRequest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
keras = pytest.importorskip("keras")
pytestmark = pytest.mark.slow

layers, ops = keras.layers, keras.ops
WORDS, IMAGE = (24, 32), (14, 14, 16)
HEADS, WIDTH = 4, 8


class Written(layers.Layer):
    """A layer with named weights and a call that is given."""

    def __init__(self, call: Callable[..., Any], **shapes: tuple[int, ...]) -> None:
        super().__init__()
        self._written = call
        self._shapes = shapes

    def build(self, *shapes: Any) -> None:
        self.own = {
            name: self.add_weight(shape=shape, name=name)
            for name, shape in self._shapes.items()
        }
        self.built = True

    def call(self, *inputs: Any) -> Any:
        weights = {name: weight.value for name, weight in self.own.items()}
        return self._written(*inputs, **weights)


def dense(x: Any, kernel: Any, bias: Any) -> Any:
    return ops.relu(ops.matmul(x, kernel) + bias)


def gelu(x: Any, kernel: Any, bias: Any) -> Any:
    return ops.gelu(ops.matmul(x, kernel) + bias, approximate=False)


def normalised(x: Any, gamma: Any, beta: Any) -> Any:
    mean = ops.mean(x, axis=-1, keepdims=True)
    variance = ops.var(x, axis=-1, keepdims=True)
    return (x - mean) / ops.sqrt(variance + 1e-3) * gamma + beta


def convolved(x: Any, kernel: Any, bias: Any) -> Any:
    x = ops.relu(ops.conv(x, kernel, padding="same") + bias)
    return ops.mean(ops.max_pool(x, 2), axis=(1, 2))


def attended(query: Any, value: Any, **weights: Any) -> Any:
    def heads(x: Any, name: str) -> Any:
        projected = ops.einsum("btf,fhd->bthd", x, weights[f"{name}_kernel"])
        return projected + weights[f"{name}_bias"]

    q, k, v = heads(query, "query"), heads(value, "key"), heads(value, "value")
    q, k, v = (ops.transpose(each, (0, 2, 1, 3)) for each in (q, k, v))
    scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) * WIDTH**-0.5
    mixed = ops.matmul(ops.softmax(scores), v)
    mixed = ops.transpose(mixed, (0, 2, 1, 3))
    made = ops.einsum("bthd,hdf->btf", mixed, weights["output_kernel"])
    return made + weights["output_bias"]


def projections() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for name in ("query", "key", "value"):
        shapes[f"{name}_kernel"] = (WORDS[1], HEADS, WIDTH)
        shapes[f"{name}_bias"] = (HEADS, WIDTH)
    output = {"output_kernel": (HEADS, WIDTH, WORDS[1]), "output_bias": (WORDS[1],)}
    return {**shapes, **output}


def subclass(kind: Any) -> Any:
    """Return the same layer under a name that the plan does not know."""
    return type(f"Own{kind.__name__}", (kind,), {})


def conv_block(conv: Any, pool: Any, mean: Any) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        x = conv(24, 3, padding="same", activation="relu")(x)
        return mean()(pool()(x))

    return call


def of_kind(name: str, **settings: Any) -> dict[str, Callable[..., Any]]:
    """Return a layer of Keras, and a subclass of it."""
    kind = getattr(layers, name)
    return {
        "plain": lambda *x: kind(**settings)(*x),
        "subclass": lambda *x: subclass(kind)(**settings)(*x),
    }


BLOCK = ("Conv2D", "MaxPooling2D", "GlobalAveragePooling2D")
ROW = {"gamma": (32,), "beta": (32,)}
KERNEL = {"kernel": (32, 48), "bias": (48,)}
EXACT: dict[str, tuple[tuple[int, ...], int, dict[str, Callable[..., Any]]]] = {
    "Dense": (
        WORDS,
        1,
        of_kind("Dense", units=48, activation="relu")
        | {"ops": Written(dense, **KERNEL)},
    ),
    "Dense with gelu": (
        WORDS,
        1,
        of_kind("Dense", units=48, activation="gelu")
        | {"ops": Written(gelu, **KERNEL)},
    ),
    "LayerNormalization": (
        WORDS,
        1,
        of_kind("LayerNormalization") | {"ops": Written(normalised, **ROW)},
    ),
    "LSTM": (
        WORDS,
        1,
        of_kind("LSTM", units=20)
        | {"cell": lambda x: layers.RNN(layers.LSTMCell(20))(x)},
    ),
    "LSTM of sequences": (
        WORDS,
        1,
        of_kind("LSTM", units=20, return_sequences=True, go_backwards=True),
    ),
    "attention": (
        WORDS,
        2,
        of_kind("MultiHeadAttention", num_heads=HEADS, key_dim=WIDTH)
        | {"ops": Written(attended, **projections())},
    ),
    "attention with dropout": (
        WORDS,
        2,
        of_kind("MultiHeadAttention", num_heads=HEADS, key_dim=WIDTH, dropout=0.1),
    ),
    "convolutions": (
        IMAGE,
        1,
        {
            "plain": conv_block(*(getattr(layers, name) for name in BLOCK)),
            "subclass": conv_block(
                *(subclass(getattr(layers, name)) for name in BLOCK)
            ),
            "ops": Written(convolved, kernel=(3, 3, 16, 24), bias=(24,)),
        },
    ),
    "BatchNormalization": (IMAGE, 1, of_kind("BatchNormalization")),
}
"""Input shape, how many inputs, and ways to write the same operations."""


def planned(
    shape: tuple[int, ...], count: int, call: Callable[..., Any], *, first: bool
) -> Plan:
    """Plan a computation alone, or after a layer that is trained."""
    from ipu_runtime.engine.describe.keras_reader import read_model

    inputs = [keras.Input(shape) for _ in range(count)]
    before = inputs if first else [layers.PReLU()(x) for x in inputs]
    model = keras.Model(inputs, call(*before))
    return make_plan(PlanRequest(read_model(model), batch_size=16, batches=10))


def cycles(plan: Plan, count: int, *, first: bool) -> tuple[float, float]:
    """Return what is computed forward and backward, without the layers before."""
    own = plan.layers[0 if first else count :]
    ops = [[op for layer in own for op in layer.forward_ops]]
    ops.append([op for layer in own for op in layer.backward_ops])
    forward, backward = (
        sum(op.work + 1200 * op.supersteps for op in part) for part in ops
    )
    return forward, backward


WAYS = [(name, way) for name, (_, _, ways) in EXACT.items() for way in list(ways)[1:]]


@pytest.mark.parametrize(("name", "way"), WAYS)
@pytest.mark.parametrize("first", [True, False])
def test_all_ways_to_write_a_computation_cost_the_same(
    name: str, way: str, first: bool
) -> None:
    shape, count, ways = EXACT[name]
    plain, other = (
        cycles(planned(shape, count, call, first=first), count, first=first)
        for call in (ways["plain"], ways[way])
    )
    assert other[0] == pytest.approx(plain[0], rel=1e-9)
    # The kind plans an attention's projections of one input as one, with one gradient;
    # a trace adds two up.
    added = 1 if "attention" in name and not first else 0
    more = other[1] - plain[1]
    assert added * 1200 <= more + 1e-6
    assert more <= added * 1500 + 1e-6


def operations(model: Any) -> list[Counter[tuple[OpKind, tuple[int, ...], int]]]:
    """Count what the last layer of a model does forward and backward, by kind."""
    from ipu_runtime.engine.describe.keras_reader import read_model

    layer = read_model(model).layers[-1]
    return [
        Counter((op.kind, op.shape, op.repeat) for op in part)
        for part in (forward_operations(layer, True), backward_operations(layer, True))
    ]


def with_mask(layer: Any, count: int, mask_shape: tuple[int, ...], name: str) -> Any:
    inputs = [keras.Input(WORDS) for _ in range(count)]
    mask = keras.Input(mask_shape, dtype="bool")
    return keras.Model([*inputs, mask], layer(*inputs, **{name: mask}))


def without_mask(layer: Any, count: int) -> Any:
    inputs = [keras.Input(WORDS) for _ in range(count)]
    return keras.Model(inputs, layer(*inputs))


MASKED: dict[str, tuple[Callable[[], Any], int, tuple[int, ...], str, float]] = {
    "LSTM": (lambda: layers.LSTM(20), 1, (24,), "mask", 1.15),
    "attention": (
        lambda: layers.MultiHeadAttention(HEADS, WIDTH, dropout=0.1),
        2,
        (24, 24),
        "attention_mask",
        1.05,
    ),
}
_PASSES = {
    OpKind.ELEMENTWISE,
    OpKind.COPY,
    OpKind.GATHER,
    OpKind.SCATTER,
    OpKind.TRANSPOSE,
}
"""What choosing by a mask takes; its gradient is a choice as well."""


@pytest.mark.parametrize("name", sorted(MASKED))
def test_a_mask_adds_the_passes_that_choose_by_it_and_nothing_else(name: str) -> None:
    from ipu_runtime.engine.describe.keras_reader import read_model

    layer, count, mask_shape, argument, most = MASKED[name]
    models = (
        without_mask(layer(), count),
        with_mask(layer(), count, mask_shape, argument),
    )
    for plain, masked in zip(*map(operations, models), strict=True):
        changed = (masked - plain) + (plain - masked)
        assert {kind for kind, _, _ in changed} <= _PASSES
    times = []
    for model in models:
        plan = make_plan(PlanRequest(read_model(model), batch_size=16, batches=10))
        times.append(plan.layers[-1].forward_us + plan.layers[-1].backward_us)
    assert 1 < times[1] / times[0] < most


@pytest.mark.parametrize("kind", ["plain", "subclass"])
def test_weights_that_are_not_trained_have_no_gradient(kind: str) -> None:
    from ipu_runtime.engine.describe.keras_reader import read_model

    inputs = keras.Input(WORDS)
    before = layers.PReLU()(inputs)
    made = (layers.Dense if kind == "plain" else subclass(layers.Dense))(48)
    made.trainable = False
    plan = make_plan(PlanRequest(read_model(keras.Model(inputs, made(before))), 16, 10))
    shapes = [op.shape for op in plan.layers[-1].backward_ops if op.code == "matmul"]
    assert [shape[:3] for shape in shapes] == [(16 * 24, 48, 32)]
