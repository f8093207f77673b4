"""Recurrent layers and embeddings: by hand, and inside programs of the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops.rnn_cell import LSTMStateTuple

from ipu_runtime import ipu_compiler, loops, scopes
from ipu_runtime.addons import layers as addon_layers
from ipu_runtime.config import IPUConfig
from ipu_runtime.ipu_infeed_queue import IPUInfeedQueue
from ipu_runtime.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_runtime.ops import (
    embedding_ops,
    f8_ops,
    image_ops,
    math_ops,
    nn_ops,
    normalization_ops,
    rnn_ops,
    slicing_ops,
    statistics_ops,
)
from ipu_runtime.ops.pipelining_ops import PipelineSchedule
from ipu_runtime.pipelining.pipeline_op import OptimizerFunctionOutput, pipeline

pytestmark = pytest.mark.slow
v1 = tf.compat.v1

RNG = np.random.default_rng(3)
TIME, BATCH, FEATURES, UNITS = 4, 3, 2, 5


def _numbers(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _built(layer: Any) -> Any:
    """Give a layer weights that tell its gates apart."""
    layer.build((TIME, BATCH, FEATURES))
    for variable in layer.trainable_variables:
        variable.assign(_numbers(*variable.shape))
    return layer


def _by_hand(
    layer: Any,
    x: Any,
    lengths: Any = None,
    scores: Any = None,
    reset_after: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return outputs, last h and last c; NumPy, gate after gate."""
    kernel, biases = layer.kernel.numpy(), layer.biases.numpy()
    into, back = np.split(kernel, [FEATURES])
    h = c = np.zeros((BATCH, UNITS))
    outputs = np.zeros((TIME, BATCH, UNITS))
    gates = kernel.shape[1] // UNITS
    for step in range(TIME):
        w = np.split(into, gates, axis=1)
        r = np.split(back, gates, axis=1)
        if gates == 4:
            i, f, g, o = (x[step] @ w[n] + h @ r[n] + biases[n] for n in range(4))
            new_c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
            new_h = _sigmoid(o) * np.tanh(new_c)
        else:
            inner, outer = (
                (biases[:, 0], biases[:, 1])
                if reset_after
                else (biases, np.zeros_like(biases))
            )
            update, reset = (
                _sigmoid(x[step] @ w[n] + inner[n] + h @ r[n] + outer[n])
                for n in range(2)
            )
            if scores is not None:
                update = update * (1 - scores[step][:, None])
            recurrent = (
                reset * (h @ r[2] + outer[2]) if reset_after else (reset * h) @ r[2]
            )
            candidate = np.tanh(x[step] @ w[2] + inner[2] + recurrent)
            new_h, new_c = update * h + (1 - update) * candidate, c
        runs = np.ones(BATCH, bool) if lengths is None else step < lengths
        h, c = np.where(runs[:, None], new_h, h), np.where(runs[:, None], new_c, c)
        outputs[step] = np.where(runs[:, None], new_h, 0)
    return outputs, h, c


LENGTHS = np.array([4, 2, 1], np.int32)


def _close(found: Any, expected: Any, tolerance: float = 1e-4) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_lstm_gates_are_input_forget_candidate_output() -> None:
    layer, x = _built(rnn_ops.PopnnLSTM(UNITS)), _numbers(TIME, BATCH, FEATURES)
    outputs, state = layer(x)
    expected, h, c = _by_hand(layer, x)
    _close(outputs, expected)
    _close(state.h, h)
    _close(state.c, c)
    again, _ = layer(x[2:], initial_state=layer(x[:2])[1])
    _close(again, expected[2:])
    with pytest.raises(ValueError, match="LSTMStateTuple"):
        layer(x, initial_state=(h, c))


def test_addons_have_the_arguments_of_later_sdks_in_their_order() -> None:
    kinds = (tf.float32, tf.float32, None, None, None, "tanh", "sigmoid")
    x = _numbers(TIME, BATCH, FEATURES)
    lstm = _built(addon_layers.PopnnLSTM(UNITS, *kinds, False))
    _close(lstm(x), _by_hand(lstm, x)[0])
    gru = _built(addon_layers.PopnnGRU(UNITS, *kinds, False, "gru", True))
    _close(gru(x), _by_hand(gru, x, reset_after=True)[0])


def test_dynamic_lstm_stops_at_every_samples_length() -> None:
    layer, x = _built(rnn_ops.PopnnDynamicLSTM(UNITS)), _numbers(TIME, BATCH, FEATURES)
    outputs, state = layer(x, LENGTHS)
    expected, h, c = _by_hand(layer, x, LENGTHS)
    _close(outputs, expected)
    _close(state.h, h)
    _close(state.c, c)


@pytest.mark.parametrize("reset_after", [True, False])
def test_gru_gates_are_update_reset_candidate(reset_after: bool) -> None:
    layer = _built(rnn_ops.PopnnGRU(UNITS, reset_after=reset_after))
    x = _numbers(TIME, BATCH, FEATURES)
    outputs, state = layer(x)
    expected, h, _ = _by_hand(layer, x, reset_after=reset_after)
    _close(outputs, expected)
    _close(state, h)


@pytest.mark.parametrize("reset_after", [True, False])
def test_dynamic_gru_with_batches_first(reset_after: bool) -> None:
    layer = _built(rnn_ops.PopnnDynamicGRU(UNITS, reset_after=reset_after))
    x = _numbers(TIME, BATCH, FEATURES)
    outputs, state = layer(x.transpose(1, 0, 2), LENGTHS, time_major=False)
    expected, h, _ = _by_hand(layer, x, LENGTHS, reset_after=reset_after)
    _close(outputs, expected)
    _close(state, h)


def test_attention_damps_the_update_gate() -> None:
    layer, x = _built(rnn_ops.PopnnAUGRU(UNITS)), _numbers(TIME, BATCH, FEATURES)
    scores = RNG.random((TIME, BATCH)).astype(np.float32)
    outputs, state = layer(x, LENGTHS, scores)
    expected, h, _ = _by_hand(layer, x, LENGTHS, scores)
    _close(outputs, expected)
    _close(state, h)
    turned, _ = layer(x.transpose(1, 0, 2), LENGTHS, scores.T, time_major=False)
    _close(turned, expected)


def test_recurrent_gradients_and_half_precision() -> None:
    layer, x = _built(rnn_ops.PopnnAUGRU(UNITS)), _numbers(TIME, BATCH, FEATURES)
    scores = RNG.random((TIME, BATCH)).astype(np.float32)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(layer(x, LENGTHS, scores)[0]))
    kernel = layer.kernel.numpy()
    gradient = tape.gradient(loss, layer.kernel).numpy()
    for index in [(0, 0), (1, 7), (3, 2), (6, 12)]:
        sums = []
        for step in (1e-3, -1e-3):
            moved = kernel.copy()
            moved[index] += step
            layer.kernel.assign(moved)
            sums.append((_by_hand(layer, x, LENGTHS, scores)[0] ** 2).sum())
        assert gradient[index] == pytest.approx((sums[0] - sums[1]) / 2e-3, abs=1e-2)
    layer.kernel.assign(kernel)
    half = rnn_ops.PopnnAUGRU(UNITS, dtype=tf.float16)
    half.build(x.shape)
    for mine, other in zip(
        half.trainable_variables, layer.trainable_variables, strict=True
    ):
        mine.assign(tf.cast(other, tf.float16))
    outputs, _ = half(x.astype(np.float16), LENGTHS, scores.astype(np.float16))
    assert outputs.dtype == tf.float16
    _close(outputs, layer(x, LENGTHS, scores)[0], 2e-2)


def test_recurrent_layers_refuse_what_the_device_lacks() -> None:
    with pytest.raises(ValueError, match="float64"):
        rnn_ops.PopnnLSTM(2, dtype=tf.float64)
    with pytest.raises(ValueError, match="'elu' is not supported"):
        rnn_ops.PopnnGRU(2, activation="elu")
    with pytest.raises(ValueError, match="'relu' is not supported"):
        rnn_ops.PopnnGRU(2, recurrent_activation="relu")
    with pytest.raises(ValueError, match="3 dims, got 2"):
        rnn_ops.PopnnGRU(2)(np.zeros((2, 3), np.float32))


def test_lookups_have_dense_gradients() -> None:
    table = _numbers(6, 2, 3)
    ids = np.array([[4, 1], [1, 1]], np.int32)
    upstream = _numbers(2, 2, 2, 3)
    expected = np.zeros_like(table)
    np.add.at(expected, ids, upstream)
    for dtype, run in ((tf.float32, tf.function), (tf.float16, lambda f: f)):
        variable = tf.Variable(tf.cast(table, dtype))
        with tf.GradientTape() as tape:
            rows = run(embedding_ops.embedding_lookup)(variable, tf.constant(ids))
        _close(rows, table[ids], 2e-3)
        gradient = tape.gradient(rows, variable, tf.cast(upstream, dtype))
        assert not isinstance(gradient, tf.IndexedSlices)
        _close(gradient, expected, 2e-2)
    with pytest.raises(ValueError, match=r"must divide the size .* \(6\)"):
        embedding_ops.embedding_lookup(table, ids, serialization_factor=4)


def _configure(ipus: int) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def _program(
    build: Callable[[], Any],
    around: Callable[[Any], Any] | None = None,
    fetch: Callable[[], Any] = v1.trainable_variables,
    ipus: int = 1,
) -> tuple[Any, Any]:
    """Compile and run a program once; return its results and what is fetched."""
    _configure(ipus)
    with scopes.ipu_scope("/device:IPU:0"):
        program = ipu_compiler.compile(build)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        if around is None:
            return session.run(program), session.run(fetch())
        with around(session):
            return session.run(program), session.run(fetch())


def test_recurrent_layers_norms_and_lookups_train_in_a_loop() -> None:
    ids = np.array([[0, 1], [2, 1]], np.int32)

    def body(total: Any) -> Any:
        with v1.variable_scope("model", reuse=v1.AUTO_REUSE):
            table = v1.get_variable("table", [3, FEATURES], initializer=ones)
            x = embedding_ops.embedding_lookup(table, tf.constant(ids))
            x = normalization_ops.layer_norm(nn_ops.gelu(x))
        outputs, state = rnn_ops.PopnnLSTM(UNITS, weights_initializer=ones)(x)
        loss = tf.reduce_sum(outputs) + tf.reduce_sum(state.c)
        train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
        return total + loss, train

    with tf.Graph().as_default():
        ones = v1.ones_initializer()
        losses, variables = _program(lambda: loops.repeat(3, body, [tf.constant(0.0)]))
        names = [item.op.name for item in v1.trainable_variables()]
    assert names == [
        "model/table",
        "model/LayerNorm/beta",
        "model/LayerNorm/gamma",
        "popnn_lstm/kernel",
        "popnn_lstm/biases",
    ]
    assert np.isfinite(losses[0])
    assert not np.array_equal(variables[3], np.ones_like(variables[3]))


LABELS = np.array([[1, 2], [2, 0], [1, 0]], np.int32)
COUNTS = np.array([2, 1, 1], np.int32)


def _every_operation(x: Any) -> list[Any]:
    """Apply operations to a tensor of time, batch and six values."""
    rows = tf.reshape(x, [-1, 6])
    metadata = f8_ops.create_metadata(f8_ops.Format.F152, -1)
    scores, lengths, paths = nn_ops.ctc_beam_search_decoder(x, LENGTHS, 8, 2, 0)
    return [
        nn_ops.gelu(x),
        nn_ops.softmax(x),
        nn_ops.hard_sigmoid(x),
        nn_ops.multi_conv(lambda a: nn_ops.swish(a))(x),
        nn_ops.ctc_loss_v2(LABELS, x, COUNTS, LENGTHS, 0),
        nn_ops.ctc_loss_with_log_probs(
            LABELS, tf.nn.log_softmax(x), COUNTS, LENGTHS, 0
        ),
        normalization_ops.group_norm(x, center=False, scale=False),
        math_ops.serialized_matmul(rows, rows, 2, "b_rows", transpose_b=True),
        math_ops.segment_sum(rows, np.arange(12) // 5, 4),
        image_ops.normalise_image(x[..., :3], [0.1, 0.2, 0.3], [1.0, 2.0, 3.0]),
        slicing_ops.sequence_slice(tf.ones_like(rows), rows, [3], [1], [2], False),
        slicing_ops.sequence_slice_unpack(rows, [1, 2], [0, 3], 4),
        embedding_ops.embedding_lookup(rows, tf.constant([3, 3, 7]), 2),
        statistics_ops.histogram(x[0, 0], [-0.5, 0.5]),
        f8_ops.convert_from_f8(f8_ops.convert_to_f8(x, metadata), tf.float32),
        f8_ops.f8_matmul(rows, tf.transpose(rows)),
        scores,
        tf.cast(lengths, tf.float32),
        tf.cast(paths, tf.float32),
    ]


@pytest.fixture(params=["shapes of TensorFlow 2", "shapes of TensorFlow 1"])
def _shapes(request: Any) -> Any:
    """Let extents be numbers, or the objects that `disable_v2_behavior` brings back."""
    if request.param.endswith("1"):
        v1.disable_v2_tensorshape()
    yield
    v1.enable_v2_tensorshape()


@pytest.mark.usefixtures("_shapes")
def test_operations_compute_the_same_inside_a_loop_of_a_program() -> None:
    x = _numbers(TIME, BATCH, 6)
    tensor = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        expected = _every_operation(tensor)
        total = tf.add_n([tf.reduce_sum(item) for item in map(_single, expected[:13])])
    expected = [*map(_single, expected), tape.gradient(total, tensor)]

    def body(*before: Any) -> list[Any]:
        given = tf.constant(x)
        values = [_single(item) for item in _every_operation(given)]
        gradient = tf.gradients([tf.reduce_sum(item) for item in values[:13]], given)
        return [
            old + new for old, new in zip(before, [*values, *gradient], strict=True)
        ]

    with tf.Graph().as_default():
        start = [tf.zeros(item.shape) for item in expected]
        found, _ = _program(lambda: loops.repeat(2, body, start), fetch=list)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, 2 * theirs, rtol=1e-3, atol=1e-4)


def _single(tensor: Any) -> Any:
    return tf.cast(tensor, tf.float32)


def test_operations_train_in_the_stages_of_a_pipeline() -> None:
    start, features = _numbers(6, 4), _numbers(TIME, BATCH, 6)

    def first(x: Any, weights: Any) -> Any:
        whole = tf.broadcast_to(weights, [TIME, 6, 4])
        return nn_ops.gelu(math_ops.serialized_matmul(x, whole, 2, "b_rows"))

    def second(x: Any) -> Any:
        return tf.reduce_sum(nn_ops.ctc_loss_v2(LABELS, x, COUNTS, LENGTHS, 0))

    variable = tf.Variable(start)
    with tf.GradientTape() as tape:
        loss = second(first(tf.constant(features), variable))
    expected = start - 0.1 * 2 * tape.gradient(loss, variable)

    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(features).repeat())
        queue = IPUOutfeedQueue()

        def weighted(x: Any) -> Any:
            begin = v1.constant_initializer(start)
            return first(x, v1.get_variable("w", [6, 4], initializer=begin))

        def update(loss: Any) -> Any:
            return OptimizerFunctionOutput(v1.train.GradientDescentOptimizer(0.1), loss)

        _configure(2)
        with scopes.ipu_scope("/device:IPU:0"):
            program = ipu_compiler.compile(
                lambda: pipeline(
                    [weighted, second],
                    2,
                    infeed_queue=infeed,
                    outfeed_queue=queue,
                    optimizer_function=update,
                    pipeline_schedule=PipelineSchedule.Sequential,
                )
            )
        with v1.Session() as session:
            session.run([infeed.initializer, v1.global_variables_initializer()])
            session.run(program)
            (found,) = session.run(v1.trainable_variables())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


ROWS, WIDTH, RATE = 5, 2, 0.5
IDS = np.array([3, 1, 3], np.int32)


def _host_loss(embedding: Any, ids: Any) -> tuple[Any, Any]:
    rows = embedding.lookup(ids)
    return rows, tf.reduce_sum(tf.square(rows))


def _host_table(steps: int, per_update: int = 1, replicas: int = 1) -> np.ndarray:
    """Return the table after steps of gradient descent on the squares of its rows."""
    table, total = np.ones((ROWS, WIDTH)), np.zeros((ROWS, WIDTH))
    for step in range(1, steps + 1):
        for _ in range(replicas):
            np.add.at(total, IDS, 2 * table[IDS])
        if step % per_update == 0:
            table, total = table - RATE * total, np.zeros((ROWS, WIDTH))
    return table


@pytest.mark.parametrize("ipus", [1, 2])
def test_host_embeddings_learn_inside_a_loop_from_all_replicas(ipus: int) -> None:
    with tf.Graph().as_default():
        embedding = embedding_ops.create_host_embedding(
            "table",
            [ROWS, WIDTH],
            np.float32,
            optimizer_spec=embedding_ops.HostEmbeddingOptimizerSpec(RATE),
            initializer=v1.ones_initializer(),
        )

        def body() -> Any:
            _, loss = _host_loss(embedding, tf.constant(IDS))
            return v1.train.GradientDescentOptimizer(0.1).minimize(loss)

        _, table = _program(
            lambda: loops.repeat(3, body),
            embedding.register,
            embedding.get_embedding_tensor,
            ipus,
        )
    np.testing.assert_allclose(table, _host_table(3, replicas=ipus), rtol=1e-5)


def test_host_embeddings_accumulate_over_backward_passes() -> None:
    with tf.Graph().as_default():
        embedding = embedding_ops.create_host_embedding(
            "table",
            [ROWS, WIDTH],
            tf.float32,
            optimizer_spec=embedding_ops.HostEmbeddingSGDGAOptimizerSpec(RATE, 2),
            initializer=v1.ones_initializer(),
        )

        def body() -> Any:
            _, loss = _host_loss(embedding, tf.constant(IDS))
            return v1.train.GradientDescentOptimizer(0.1).minimize(loss)

        _, table = _program(
            lambda: loops.repeat(5, body),
            embedding.register,
            embedding.get_embedding_tensor,
        )
    np.testing.assert_allclose(table, _host_table(5, per_update=2), rtol=1e-5)


@pytest.mark.parametrize("ipus", [2, 4])
def test_host_embeddings_in_the_first_stage_of_a_pipeline(ipus: int) -> None:
    replicas = ipus // 2
    with tf.Graph().as_default():
        embedding = embedding_ops.create_host_embedding(
            "table",
            [ROWS, WIDTH],
            np.float32,
            optimizer_spec=embedding_ops.HostEmbeddingSGDGAOptimizerSpec(RATE, 4),
            initializer=v1.ones_initializer(),
        )
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(IDS).repeat())
        queue = IPUOutfeedQueue()

        def update(loss: Any) -> Any:
            return OptimizerFunctionOutput(v1.train.GradientDescentOptimizer(1.0), loss)

        def build() -> Any:
            return pipeline(
                [
                    embedding.lookup,
                    lambda rows: tf.reduce_sum(tf.square(rows)),
                ],
                4,
                repeat_count=2,
                infeed_queue=infeed,
                outfeed_queue=queue,
                optimizer_function=update,
            )

        _configure(ipus)
        with scopes.ipu_scope("/device:IPU:0"):
            program = ipu_compiler.compile(build)
        with v1.Session() as session:
            session.run([infeed.initializer, v1.global_variables_initializer()])
            with embedding.register(session):
                session.run(program)
                table = session.run(embedding.get_embedding_tensor())
    expected = _host_table(8, per_update=4, replicas=replicas)
    np.testing.assert_allclose(table, expected, rtol=1e-5)


def test_host_embeddings_without_an_optimizer_stay_and_clip() -> None:
    table = tf.Variable(_numbers(ROWS, WIDTH))
    embedding = embedding_ops.HostEmbedding("kept", table)
    with embedding.register() as registered, tf.GradientTape() as tape:
        rows = registered.lookup(np.array([[7, -1]]))
    np.testing.assert_array_equal(rows, table.numpy()[[[4, 0]]])
    assert tape.gradient(rows, table) is None


def test_host_embeddings_learn_eagerly_with_what_the_tape_has_watched() -> None:
    table = tf.Variable(tf.ones((ROWS, WIDTH)))
    spec = embedding_ops.HostEmbeddingOptimizerSpec(RATE)
    embedding = embedding_ops.HostEmbedding("eager", table, optimizer_spec=spec)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            _, loss = _host_loss(embedding, tf.constant(IDS))
        return tape.gradient(loss, spec._dummy(table, "eager"))

    for _ in range(2):
        assert step().numpy() == 0
    np.testing.assert_allclose(table, _host_table(2), rtol=1e-5)


def test_host_embeddings_refuse_what_they_cannot_use() -> None:
    table = tf.Variable(tf.ones((2, 2)))
    with pytest.raises(ValueError, match="not a tensorflow tensor"):
        embedding_ops.HostEmbedding("a", np.ones((2, 2)))
    with pytest.raises(ValueError, match="optimizer_spec"):
        embedding_ops.HostEmbedding("a", table, optimizer_spec=0.1)
    with pytest.raises(ValueError, match="partition strategy 'ROW'"):
        embedding_ops.HostEmbedding("a", table, "ROW")
    spec = embedding_ops.HostEmbeddingOptimizerSpec(0.1)
    with pytest.raises(ValueError, match="must be a variable"):
        embedding_ops.HostEmbedding("a", tf.ones((2, 2)), optimizer_spec=spec)
    with pytest.raises(NotImplementedError, match="register"):
        embedding_ops.HostEmbedding("a", table)(1)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="session"):
        embedding_ops.HostEmbedding("a", tf.ones((2, 2))).register()


def test_lstm_states_keep_their_type() -> None:
    layer = rnn_ops.PopnnLSTM(UNITS)
    _, state = layer(np.zeros((TIME, BATCH, FEATURES), np.float32))
    assert isinstance(state, LSTMStateTuple)
    alone = rnn_ops.PopnnGRU(UNITS, return_state=False)
    outputs = alone(np.zeros((TIME, BATCH, FEATURES), np.float32))
    assert outputs.shape == (TIME, BATCH, UNITS)
