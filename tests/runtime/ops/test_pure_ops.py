"""Operations of one tensor or two, against NumPy: values, gradients and refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.ops import (
    image_ops,
    math_ops,
    nn_ops,
    normalization_ops,
    slicing_ops,
    statistics_ops,
)

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(11)


def _numbers(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def _slope(function: Callable[[np.ndarray], Any], at: np.ndarray) -> np.ndarray:
    """Return the gradient of a function's weighted sum by central differences."""
    gradient = np.zeros_like(at, np.float64)
    for index in np.ndindex(*at.shape):
        step = np.zeros_like(at, np.float64)
        step[index] = 1e-4
        gradient[index] = (function(at + step) - function(at - step)) / 2e-4
    return gradient


def _check(
    operation: Callable[[Any], Any], reference: Callable[[Any], Any], x: np.ndarray
) -> None:
    """Compare values and gradients, eagerly and traced, and half-precision values."""
    expected = reference(x.astype(np.float64))
    weights = np.cos(np.arange(expected.size)).reshape(expected.shape)
    slope = _slope(lambda at: (reference(at) * weights).sum(), x.astype(np.float64))
    for run in (operation, tf.function(operation)):
        tensor = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(tensor)
            result = run(tensor)
            total = tf.reduce_sum(result * weights.astype(np.float32))
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            tape.gradient(total, tensor), slope, rtol=1e-3, atol=1e-4
        )
    half = operation(tf.constant(x, tf.float16))
    assert half.dtype == tf.float16
    np.testing.assert_allclose(half, expected, rtol=2e-2, atol=2e-2)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(
    ("operation", "reference"),
    [
        (
            nn_ops.gelu,
            lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        ),
        (nn_ops.swish, lambda x: x * _sigmoid(x)),
        (nn_ops.hard_sigmoid, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
        (nn_ops.softmax, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    ],
)
def test_activations(operation: Any, reference: Any) -> None:
    _check(operation, reference, 2 * _numbers(3, 4))


def test_exact_gelu_is_not_the_approximation() -> None:
    x = tf.constant([-1.0, 0.5, 2.0])
    exact = 0.5 * x * (1 + tf.math.erf(x / np.sqrt(2)))
    np.testing.assert_allclose(nn_ops.gelu(x, approximate=False), exact, rtol=1e-6)
    assert np.abs(nn_ops.gelu(x) - exact).max() > 1e-5


def test_only_the_stable_softmax_takes_large_values() -> None:
    x = tf.constant([100.0, 100.0])
    assert nn_ops.softmax(x, stable=True).numpy().tolist() == [0.5, 0.5]
    assert np.isnan(nn_ops.softmax(x).numpy()).all()


def test_multi_conv_runs_the_function() -> None:
    @nn_ops.multi_conv
    def both(x: Any, y: Any) -> Any:
        return x + 1, y * 2

    assert [item.numpy() for item in both(tf.constant(1), tf.constant(3))] == [2, 6]
    run = nn_ops.multi_conv(options={"perConvReservedTiles": "50"})(lambda x: x)
    assert run(tf.constant(5)).numpy() == 5
    with pytest.raises(TypeError, match="options"):
        nn_ops.multi_conv(options=["50"])(lambda x: x)(tf.constant(1))


def _sampled() -> Any:
    """Return table, biases, labels, inputs, draws, and logits with hits left in."""
    table, biases, inputs = _numbers(6, 3), _numbers(6), _numbers(2, 3)
    labels = np.array([[1], [4]])
    draws = np.array([1, 0, 5]), np.array([[0.3], [0.1]]), np.array([0.3, 0.5, 0.1])
    true = (inputs * table[labels[:, 0]]).sum(1) + biases[labels[:, 0]]
    drawn = inputs @ table[draws[0]].T + biases[draws[0]]
    logits = np.column_stack(
        [true[:, None] - np.log(draws[1]), drawn - np.log(draws[2])]
    )
    values = tuple(
        tf.constant(item, dtype)
        for item, dtype in zip(draws, (tf.int64, tf.float32, tf.float32), strict=True)
    )
    return table, biases, labels, inputs, values, logits


def test_sampled_softmax_keeps_accidental_hits() -> None:
    table, biases, labels, inputs, values, logits = _sampled()
    loss = nn_ops.sampled_softmax_loss(
        table, biases, labels, inputs, 3, 6, sampled_values=values
    )
    expected = np.log(np.exp(logits).sum(1)) - logits[:, 0]
    np.testing.assert_allclose(loss, expected, rtol=1e-4)


def test_noise_contrastive_loss_and_its_dense_gradient() -> None:
    table, biases, labels, inputs, values, logits = _sampled()
    variable = tf.Variable(table)
    with tf.GradientTape() as tape:
        loss = nn_ops.nce_loss(
            variable, biases, labels, inputs, 3, 6, sampled_values=values
        )
    targets = np.zeros_like(logits)
    targets[:, 0] = 1
    expected = np.log1p(np.exp(logits)) - targets * logits
    np.testing.assert_allclose(loss, expected.sum(1), rtol=1e-4)
    gradient = tape.gradient(loss, variable)
    assert not isinstance(gradient, tf.IndexedSlices)
    error = _sigmoid(logits) - targets
    by_hand = np.zeros_like(table)
    for sample in range(2):
        for column, row in enumerate([labels[sample, 0], 1, 0, 5]):
            by_hand[row] += error[sample, column] * inputs[sample]
    np.testing.assert_allclose(gradient, by_hand, rtol=1e-3, atol=1e-5)
    half = nn_ops.nce_loss(
        tf.cast(variable, tf.float16),
        biases,
        labels,
        tf.cast(inputs, tf.float16),
        3,
        6,
        sampled_values=values,
    )
    assert half.dtype == tf.float16


_GROUPS = {True: [[0, 2, 4], [1, 3, 5]], False: [[0, 1, 2], [3, 4, 5]]}


def _normalised(x: Any, groups: Any, epsilon: float = 1.53e-5) -> Any:
    """Normalise samples over lists of channels, which come last."""
    result = np.empty_like(x)
    for sample in range(len(x)):
        for channels in groups:
            part = x[sample][..., channels]
            whitened = (part - part.mean()) / np.sqrt(part.var() + epsilon)
            result[sample][..., channels] = whitened
    return result


@pytest.mark.parametrize("strided", [True, False])
def test_group_norm(strided: bool) -> None:
    _check(
        lambda x: normalization_ops.group_norm(
            x, center=False, scale=False, strided_channel_grouping=strided
        ),
        lambda x: _normalised(x, _GROUPS[strided]),
        _numbers(2, 3, 6),
    )


def test_instance_and_layer_norm_with_channels_first() -> None:
    x = _numbers(2, 4, 3)
    kwargs: dict[str, Any] = {"channels_axis": 1, "center": False, "scale": False}
    by_channel = _normalised(x.transpose(0, 2, 1), [[c] for c in range(4)])
    np.testing.assert_allclose(
        normalization_ops.instance_norm(x, **kwargs),
        by_channel.transpose(0, 2, 1),
        rtol=1e-4,
        atol=1e-5,
    )
    whole = _normalised(x, [list(range(3))])
    np.testing.assert_allclose(
        normalization_ops.layer_norm(x, **kwargs), whole, rtol=1e-4, atol=1e-5
    )


def test_norms_make_variables_as_tensorflow_one_does() -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = tf.constant(_numbers(2, 4))
        start = {"gamma": v1.constant_initializer(3.0)}
        once = normalization_ops.layer_norm(
            x, scope="mine", param_initializers=start, variables_collections=["kept"]
        )
        again = normalization_ops.layer_norm(x, scope="mine", reuse=True)
        normalization_ops.group_norm(x, trainable=False, center=False)
        assert [item.op.name for item in v1.get_collection("kept")] == [
            "mine/beta",
            "mine/gamma",
        ]
        assert [item.op.name for item in v1.global_variables()] == ["GroupNorm/gamma"]
        assert not any("GroupNorm" in item.name for item in v1.trainable_variables())
        with v1.Session() as session:
            session.run([item.initializer for item in v1.get_collection("kept")])
            first, second = session.run([once, again])
            np.testing.assert_array_equal(first, second)
            expected = 3 * _normalised(x.eval(), [[0, 1, 2, 3]])
            np.testing.assert_allclose(first, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"groups": 3}, "not commensurate"),
        ({"groups": 8}, "Invalid groups"),
        ({"channels_axis": 2}, "only supports NCHW"),
        ({"channels_axis": 4}, "out of bounds"),
    ],
)
def test_group_norm_refuses(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        normalization_ops.group_norm(np.zeros((2, 4, 3, 4), np.float32), **settings)


@pytest.mark.parametrize("dimension", ["a_columns", "a_rows_b_columns", "b_rows"])
@pytest.mark.parametrize("transposed", [True, False])
def test_serialized_products_equal_whole_ones(dimension: str, transposed: bool) -> None:
    a, b = _numbers(2, 4, 6), _numbers(2, 6, 8)
    turned = b.transpose(0, 2, 1) if transposed else b
    _check(
        lambda x: math_ops.serialized_matmul(
            x, tf.cast(turned, x.dtype), 2, dimension, transpose_b=transposed
        ),
        lambda x: x @ b.astype(np.float64),
        a,
    )


@pytest.mark.parametrize(
    ("factor", "dimension", "words"),
    [
        (0, "a_columns", "at least 1"),
        (2, "columns", "serialization_dimension"),
        (3, "a_columns", "to divide the extent .4. of 'a'"),
        (4, "a_rows_b_columns", "to divide the extent .6. of 'a'"),
        (3, "b_rows", "to divide the extent .8. of 'b'"),
    ],
)
def test_products_that_cannot_be_cut(factor: int, dimension: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        math_ops.serialized_matmul(_numbers(4, 6), _numbers(6, 8), factor, dimension)


def test_segment_sum() -> None:
    ids = np.array([0, 0, 2, 2, 2])
    _check(
        lambda x: math_ops.segment_sum(x, ids, 4),
        lambda x: np.stack([x[:2].sum(0), 0 * x[0], x[2:].sum(0), 0 * x[0]]),
        _numbers(5, 3),
    )
    with pytest.raises(ValueError, match="same length"):
        math_ops.segment_sum(_numbers(4, 2), ids, 3)
    with pytest.raises(ValueError, match="num_segments"):
        math_ops.segment_sum(_numbers(5, 2), ids, 0)


def test_normalised_images_have_a_fourth_channel() -> None:
    offsets, scales = np.array([0.1, 0.2, 0.3]), np.array([2.0, 3.0, 4.0])

    def reference(x: Any) -> Any:
        body = (x * 0.5 - offsets) * scales
        return np.concatenate([body, np.zeros_like(body[..., :1])], axis=-1)

    _check(
        lambda x: image_ops.normalise_image(x, offsets, scales, 0.5),
        reference,
        _numbers(1, 2, 2, 3),
    )
    octets = np.arange(12, dtype=np.uint8).reshape(1, 2, 2, 3)
    result = image_ops.normalise_image(octets, offsets, scales, 0.5)
    assert result.dtype == tf.float16
    np.testing.assert_allclose(result, reference(octets / 1.0), rtol=1e-2, atol=1e-2)
    with pytest.raises(TypeError, match="int32"):
        image_ops.normalise_image(octets.astype(np.int32), offsets, scales)


def _copied(dst: Any, src: Any, slices: Any, zero: bool) -> Any:
    result = np.zeros_like(dst) if zero else dst.copy()
    for count, read, write in slices:
        result[write : write + count] = src[read : read + count]
    return result


@pytest.mark.parametrize("zero_unused", [True, False])
def test_sequence_slice(zero_unused: bool) -> None:
    dst = _numbers(6, 2)
    slices = [(2, 2, 0), (3, 1, 3), (0, 0, 0)]
    counts, reads, writes = zip(*slices, strict=True)
    _check(
        lambda x: slicing_ops.sequence_slice(
            tf.cast(dst, x.dtype), x, counts, reads, writes, zero_unused
        ),
        lambda x: _copied(dst.astype(np.float64), x, slices, zero_unused),
        _numbers(5, 2),
    )


def test_packing_undoes_unpacking() -> None:
    src = _numbers(6, 3)
    flat = slicing_ops.sequence_slice_unpack(src, [2, 1], [1, 5], 4)
    expected = np.concatenate([src[1:3], src[5:6], np.zeros((1, 3))])
    np.testing.assert_array_equal(flat, expected)
    packed = slicing_ops.sequence_slice_pack(
        np.ones_like(src), flat, [2, 1], [1, 5], False
    )
    expected = np.ones_like(src)
    expected[[1, 2, 5]] = src[[1, 2, 5]]
    np.testing.assert_array_equal(packed, expected)


def test_slices_must_agree() -> None:
    with pytest.raises(ValueError, match="matching, nonzero"):
        slicing_ops.sequence_slice(
            _numbers(4, 2), _numbers(4, 2), [1], [0, 1], [0], True
        )
    with pytest.raises(ValueError, match="inner shapes"):
        slicing_ops.sequence_slice(_numbers(4, 2), _numbers(4, 3), [1], [0], [0], True)


@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_histograms_count_from_level_to_level(absolute: bool, dtype: Any) -> None:
    values = np.array([-3, -1, -0.5, 0, 0.5, 1, 1, 4], dtype)
    levels = np.array([-0.5, 0.5, 1], dtype)
    seen = np.abs(values) if absolute else values
    edges = [-np.inf, *levels, np.inf]
    expected = [
        int(((seen >= low) & (seen < high)).sum())
        for low, high in itertools.pairwise(edges)
    ]
    counts = statistics_ops.histogram(values, levels, absolute)
    assert counts.dtype == tf.float32
    assert counts.numpy().tolist() == expected
    twice = statistics_ops.histogram_update(counts, values, levels, absolute)
    np.testing.assert_array_equal(twice, 2 * counts)
    np.testing.assert_allclose(
        statistics_ops.histogram_normalize(twice), np.array(expected) / len(values)
    )


def test_levels_span_the_values_and_shapes_are_checked() -> None:
    values = np.array([4.0, -2.0, 1.0], np.float32)
    levels = statistics_ops.fixed_width_bins(values, 4)
    np.testing.assert_allclose(levels, [-2, 0, 2, 4])
    with pytest.raises(ValueError, match="5 here"):
        statistics_ops.histogram_update(np.zeros(4, np.float32), values, levels)
    with pytest.raises(ValueError, match="int32"):
        statistics_ops.histogram(np.array([1], np.int32), levels)
    with pytest.raises(ValueError, match="rank-1"):
        statistics_ops.histogram(values[None], levels)
