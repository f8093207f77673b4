"""A model of any layers gets a plan: what the plan does not know is traced."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from ipu_runtime.plan.model.model_json import model_from_json, model_to_json
from ipu_runtime.plan.model.model_spec import ModelSpec
from ipu_runtime.plan.model.operations import Operation, OpKind
from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.problem import Severity
from ipu_runtime.plan.request import PlanRequest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
keras = pytest.importorskip("keras")
tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.slow

layers = keras.layers
IMAGE, WORDS, VOLUME, ROW = (16, 16, 8), (12, 8), (8, 8, 8, 4), (32,)


class Lookup(layers.Layer):
    """Rows of a table, mixed with the input and added up in pairs."""

    def build(self, shape: Any) -> None:
        self.table = self.add_weight(shape=(50, shape[-1]), name="table")

    def call(self, x: Any) -> Any:
        rows = tf.gather(self.table.value, tf.argmax(x, -1) % 50)
        mixed = tf.einsum("btf,bsf->bts", x, rows)
        flat = tf.reshape(tf.matmul(mixed, rows), (-1, x.shape[-1]))
        pairs = tf.range(tf.shape(flat)[0]) // 2
        sums = tf.math.segment_sum(flat, pairs)
        return tf.reshape(tf.gather(sums, pairs), tf.shape(x))


class EitherBranch(layers.Layer):
    """A product, or nothing much."""

    def call(self, x: Any) -> Any:
        return tf.cond(
            tf.reduce_sum(x) > 0, lambda: tf.matmul(x, tf.ones((8, 8))), lambda: x + 1
        )


class Spectrum(layers.Layer):
    """An operation that the cost model does not know."""

    def call(self, x: Any) -> Any:
        return tf.abs(tf.signal.rfft(x))


class Raising(layers.Layer):
    """A layer that only works outside of graphs."""

    def call(self, x: Any) -> Any:
        raise RuntimeError("needs real numbers")

    def compute_output_spec(self, x: Any) -> Any:
        return keras.KerasTensor(x.shape, x.dtype)


class EndlessLoop(layers.Layer):
    """A loop whose length depends on its values."""

    def call(self, x: Any) -> Any:
        return tf.while_loop(
            lambda y: tf.reduce_sum(y) < 10.0, lambda y: (y * 2,), (x,)
        )[0]


class Block(keras.Model):
    """A subclassed model, which is one call of the model round it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = layers.Dense(8)

    def call(self, x: Any) -> Any:
        return tf.math.abs(self.inner(x))


def alone(shape: tuple[int, ...], layer: Any) -> Any:
    inputs = keras.Input(shape)
    return keras.Model(inputs, layer(inputs))


def of_two(shape: tuple[int, ...], layer: Any) -> Any:
    inputs = [keras.Input(shape), keras.Input(shape)]
    return keras.Model(inputs, layer(inputs))


def masked_attention() -> Any:
    words, mask = keras.Input(WORDS), keras.Input((12, 12), dtype="bool")
    layer = layers.MultiHeadAttention(2, 4)
    return keras.Model([words, mask], layer(words, words, attention_mask=mask))


def expression() -> Any:
    x = keras.Input(WORDS)
    scores = keras.ops.matmul(x, keras.ops.transpose(x, (0, 2, 1)))
    return keras.Model(x, keras.ops.softmax(scores) * 2 + 1)


def with_state() -> Any:
    x = keras.Input(WORDS)
    _, hidden, cell = layers.LSTM(6, return_sequences=True, return_state=True)(x)
    joined = layers.Concatenate()([hidden, cell])
    return keras.Model(x, layers.Dense(4)(joined))


MODELS: dict[str, Callable[[], Any]] = {
    "Conv1D": lambda: alone(WORDS, layers.Conv1D(8, 3)),
    "Conv3D": lambda: alone(VOLUME, layers.Conv3D(8, 3)),
    "Conv2DTranspose": lambda: alone(IMAGE, layers.Conv2DTranspose(8, 3, strides=2)),
    "SeparableConv2D": lambda: alone(IMAGE, layers.SeparableConv2D(8, 3)),
    "DepthwiseConv2D": lambda: alone(IMAGE, layers.DepthwiseConv2D(3)),
    "GRU": lambda: alone(WORDS, layers.GRU(8)),
    "SimpleRNN": lambda: alone(WORDS, layers.SimpleRNN(8, return_sequences=True)),
    "Bidirectional": lambda: alone(WORDS, layers.Bidirectional(layers.LSTM(8))),
    "TimeDistributed": lambda: alone(WORDS, layers.TimeDistributed(layers.Dense(4))),
    "ConvLSTM2D": lambda: alone((3, 8, 8, 2), layers.ConvLSTM2D(4, 3)),
    "MultiHeadAttention": masked_attention,
    "Attention": lambda: of_two(WORDS, layers.Attention()),
    "GroupNormalization": lambda: alone(IMAGE, layers.GroupNormalization(4)),
    "UnitNormalization": lambda: alone(ROW, layers.UnitNormalization()),
    "Multiply": lambda: of_two(IMAGE, layers.Multiply()),
    "Average": lambda: of_two(IMAGE, layers.Average()),
    "Dot": lambda: of_two(WORDS, layers.Dot(2)),
    "Cropping2D": lambda: alone(IMAGE, layers.Cropping2D()),
    "UpSampling2D": lambda: alone(IMAGE, layers.UpSampling2D()),
    "ZeroPadding1D": lambda: alone(WORDS, layers.ZeroPadding1D()),
    "ZeroPadding3D": lambda: alone(VOLUME, layers.ZeroPadding3D()),
    "Permute": lambda: alone(WORDS, layers.Permute((2, 1))),
    "RepeatVector": lambda: alone(ROW, layers.RepeatVector(4)),
    "PReLU": lambda: alone(IMAGE, layers.PReLU()),
    "LeakyReLU": lambda: alone(IMAGE, layers.LeakyReLU()),
    "GaussianNoise": lambda: alone(IMAGE, layers.GaussianNoise(0.1)),
    "MaxPooling1D": lambda: alone(WORDS, layers.MaxPooling1D()),
    "channels first": lambda: alone(IMAGE, layers.Flatten("channels_first")),
    "sort": lambda: alone(WORDS, layers.Lambda(lambda x: tf.sort(x) + tf.cumsum(x))),
    "custom": lambda: alone(WORDS, Lookup()),
    "branch": lambda: alone(WORDS, EitherBranch()),
    "block": lambda: alone(ROW, Block()),
    "expression": expression,
    "state": with_state,
}


def read(model: Any) -> ModelSpec:
    from ipu_runtime.engine.describe.keras_reader import read_model

    return read_model(model)


def planned(spec: ModelSpec, training: bool = True) -> Plan:
    return make_plan(PlanRequest(spec, batch_size=8, batches=10, training=training))


def traced_op(model: Any, kind: OpKind, part: str = "forward") -> Operation:
    """Return the only operation of a kind in the model's only layer."""
    work = read(model).layers[-1].traced
    assert work is not None
    (found,) = [op for op in getattr(work, part) if op.kind is kind]
    return found


@pytest.mark.parametrize("name", sorted(MODELS))
def test_odd_layers_have_costs(name: str) -> None:
    model = MODELS[name]()
    spec = read(model)
    plan = planned(spec)
    assert plan.problems == ()
    assert spec.parameters == model.count_params()
    for layer in plan.layers:
        assert layer.forward_us > 0
    assert sum(layer.backward_us for layer in plan.layers) > 0
    assert sum(layer.forward_us for layer in planned(spec, False).layers) > 0


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_traced_model_is_the_same_after_json(name: str) -> None:
    spec = read(MODELS[name]())
    assert model_from_json(json.loads(json.dumps(model_to_json(spec)))) == spec


def test_what_a_layer_adds_to_the_loss_is_computed_in_training() -> None:
    layer = read(alone(WORDS, layers.ActivityRegularization(l2=0.1))).layers[-1]
    assert layer.traced is not None
    parts = (layer.traced.forward, layer.traced.backward, layer.traced.inference)
    kinds = [{op.kind for op in part} for part in parts]
    assert OpKind.REDUCTION in kinds[0]
    assert OpKind.ELEMENTWISE in kinds[1]
    assert kinds[2] == set()


def test_extents_grow_with_the_batch_where_it_is_folded_into_rows() -> None:
    product = traced_op(alone(WORDS, Block()), OpKind.MATMUL)
    assert product.shape == (-12, 8, 8)


def test_a_batch_is_told_from_an_extent_that_has_its_size() -> None:
    product = traced_op(alone((1009,), Block()), OpKind.MATMUL)
    assert product.shape == (-1, 1009, 8)


@pytest.mark.parametrize(
    ("layer", "shape", "kind", "extents"),
    [
        ("Conv1D", WORDS, OpKind.CONVOLUTION, (-10, 8, 6, 3, 1, -12)),
        ("Conv3D", VOLUME, OpKind.CONVOLUTION, (-216, 4, 6, 27, 1, -512)),
        ("Conv2DTranspose", IMAGE, OpKind.DATA_GRADIENT, (-324, 8, 6, 9, 1)),
    ],
)
def test_convolutions_have_their_geometry(
    layer: str, shape: tuple[int, ...], kind: OpKind, extents: tuple[int, ...]
) -> None:
    op = traced_op(alone(shape, getattr(layers, layer)(6, 3)), kind)
    assert op.shape == extents


def test_a_loop_repeats_its_operations_for_every_time_step() -> None:
    work = read(alone((20, 8), layers.GRU(5))).layers[-1].traced
    assert work is not None
    products = [op for op in work.forward if op.kind is OpKind.MATMUL]
    assert {op.repeat for op in products} == {20}
    back = [op for op in work.backward if op.kind is OpKind.MATMUL]
    assert {op.repeat for op in back} == {20}
    assert read(alone((20, 8), layers.GRU(5))).layers[-1].flops == 2 * 20 * 15 * 13


def test_the_dearer_branch_counts() -> None:
    op = traced_op(alone(WORDS, EitherBranch()), OpKind.PRODUCT)
    assert op.shape == (-12, 8, 8, 1)


def passes(function: Callable[[Any], Any]) -> list[int]:
    """Return the cycles per vector of the passes that a function takes."""
    work = read(alone(WORDS, layers.Lambda(function))).layers[-1].traced
    assert work is not None
    return [op.cycles for op in work.forward if op.kind is OpKind.ELEMENTWISE]


def test_operations_on_the_same_values_run_as_one_pass() -> None:
    assert passes(lambda x: tf.abs(x * 2.0) + x) == [2 + 1 + 1]
    assert passes(lambda x: tf.exp(x) + 1.0) == [6 + 1]


def test_a_pass_ends_where_the_next_one_waits_for_a_sum() -> None:
    def shares(x: Any) -> Any:
        powers = tf.exp(x)
        return powers / tf.reduce_sum(powers, -1, keepdims=True)

    assert passes(shares) == [6, 6]


@pytest.mark.parametrize("dtype", ["float16", "mixed_float16"])
def test_half_precision_computes_in_half(dtype: str) -> None:
    layer = read(alone(WORDS, layers.Conv1D(8, 3, dtype=dtype))).layers[-1]
    assert layer.traced is not None
    operations = layer.traced.forward + layer.traced.backward
    assert {op.value_bytes for op in operations} == {2}
    assert not any("Cast" in op.name for op in operations)


def test_a_mixed_policy_keeps_weights_and_their_optimizer_in_single_precision() -> None:
    memory = {}
    for dtype in ("float32", "mixed_float16", "float16"):
        spec = read(alone(ROW, layers.Dense(32, dtype=dtype)))
        plan = make_plan(PlanRequest(spec, 8, 1, optimizer="adam"))
        memory[dtype] = plan.memory[0].by_category
        weights = spec.parameters
    assert [own["weights"] for own in memory.values()] == [
        4 * weights,
        4 * weights,
        2 * weights,
    ]
    assert [own["optimizer"] for own in memory.values()] == [
        8 * weights,
        8 * weights,
        4 * weights,
    ]
    assert memory["mixed_float16"]["activations"] < memory["float32"]["activations"]


def test_tables_get_rows_added() -> None:
    work = read(alone(WORDS, Lookup())).layers[-1].traced
    assert work is not None
    (rows,) = [op for op in work.weights_backward if op.name == "IndexedSlices"]
    assert (rows.kind, rows.shape) == (OpKind.SCATTER, (-12 * 8,))


def test_random_layers_are_not_run_again_and_keep_their_masks() -> None:
    traced = read(alone(WORDS, layers.SpatialDropout1D(0.3))).layers[-1].traced
    assert traced is not None
    assert traced.stateful
    assert traced.mask_bytes == 8
    assert traced.inference == ()


def test_unknown_operations_are_named_and_move_data() -> None:
    spec = read(alone(ROW, Spectrum()))
    plan = planned(spec)
    (problem,) = plan.problems
    assert problem.severity is Severity.WARNING
    assert "RFFT" in str(problem)
    assert "spectrum (Spectrum)" in str(problem)
    assert plan.layers[0].forward_us > 0


def test_layers_that_cannot_be_traced_are_counted_by_their_size() -> None:
    plan = planned(read(alone(ROW, Raising())))
    (problem,) = plan.problems
    assert "needs real numbers" in str(problem)
    assert plan.layers[0].forward_us > 0


def test_a_layer_of_one_batch_size_is_traced_at_that() -> None:
    inputs = keras.Input(WORDS, batch_size=4)
    spec = read(keras.Model(inputs, layers.GRU(5, stateful=True)(inputs)))
    work = spec.layers[-1].traced
    assert work is not None
    (remark,) = work.remarks
    assert "batches of 4 only" in remark
    products = {op.shape[:2] for op in work.forward if op.kind is OpKind.MATMUL}
    assert products == {(4, 8), (4, 5)}


def test_loops_of_unknown_length_are_named() -> None:
    (problem,) = planned(read(alone(ROW, EndlessLoop()))).problems
    assert "of unknown length counts once" in str(problem)


def test_tracing_leaves_the_layer_as_it_was() -> None:
    model = alone(WORDS, layers.Dropout(0.5, seed=1, noise_shape=(None, 1, 8)))
    other = alone(WORDS, layers.BatchNormalization())
    before = [v.numpy().tolist() for m in (model, other) for v in m.variables]
    from ipu_runtime.engine.describe.layer_tracer import trace_layer
    from ipu_runtime.engine.describe.model_graph import model_graph
    from ipu_runtime.engine.describe.repeatable_call import call_of_node

    for built in (model, other):
        (call,) = model_graph(built).calls
        trace_layer(call_of_node(call), read(built).layers[-1].spec, "float32")
    after = [v.numpy().tolist() for m in (model, other) for v in m.variables]
    assert before == after
    assert model.losses == other.losses == []


def test_a_subclassed_model_is_read_once_it_is_built() -> None:
    model = Block()
    with pytest.raises(ValueError, match="call it once"):
        read(model)
    model(tf.zeros((2, 6)))
    spec = read(model)
    # One layer, or its calls where older scripts have made them visible.
    assert spec.layers[0].kind == "Input"
    assert sum(layer.flops for layer in spec.layers) == 2 * 6 * 8


def test_layers_that_a_model_function_calls_are_traced() -> None:
    from ipu_runtime.engine.describe.layer_use_reader import read_layer_uses
    from ipu_runtime.engine.describe.model_scope import model_scope

    with tf.Graph().as_default(), model_scope() as scope:
        words = tf.compat.v1.placeholder(tf.float32, (4, *WORDS))
        x = layers.GRU(5, return_sequences=True)(words, training=True)
        layers.Dot(axes=2)([x, Lookup()(x)])
    found = read_layer_uses(scope.layer_uses)
    assert found.reason == ""
    assert found.spec is not None
    kinds = [layer.kind for layer in found.spec.layers]
    assert kinds == ["Input", "GRU", "Lookup", "Dot"]
    assert found.spec.layers[-1].inputs == (
        found.spec.layers[1].name,
        found.spec.layers[2].name,
    )
    assert planned(found.spec).problems == ()
    assert found.spec.layers[1].flops == 2 * 12 * 15 * 13


def test_an_open_extent_is_refused_with_what_is_needed() -> None:
    with pytest.raises(ValueError, match="needs every extent"):
        read(alone((None, 8), layers.GRU(3)))


@pytest.mark.parametrize("name", ["MobileNetV3Small", "EfficientNetB0", "ConvNeXtTiny"])
def test_applications_of_keras_have_plans(name: str) -> None:
    model = getattr(keras.applications, name)(weights=None, input_shape=(64, 64, 3))
    spec = read(model)
    plan = planned(spec)
    assert spec.parameters == model.count_params()
    assert any(layer.traced for layer in spec.layers)
    assert not any(problem.severity is Severity.ERROR for problem in plan.problems)
    assert plan.samples_per_second > 0
