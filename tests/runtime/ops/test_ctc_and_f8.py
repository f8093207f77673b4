"""CTC against all paths written out, and eight-bit numbers against their bits."""

from __future__ import annotations

import itertools
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_runtime.addons.keras import layers
from ipu_runtime.ops import f8_ops, nn_ops

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(7)
TIME, BATCH, CLASSES = 4, 2, 3
LENGTHS = np.array([4, 3], np.int32)


def _logits() -> np.ndarray:
    return RNG.normal(size=(TIME, BATCH, CLASSES)).astype(np.float32)


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits.astype(np.float64)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def _likelihoods(log_probs: np.ndarray, length: int, blank: int) -> dict[Any, float]:
    """Return the probability of every labelling of a sample, path by path."""
    found: dict[Any, float] = {}
    for path in itertools.product(range(CLASSES), repeat=length):
        merged = [label for label, _ in itertools.groupby(path)]
        labels = tuple(label for label in merged if label != blank)
        chance = np.exp(sum(log_probs[step, label] for step, label in enumerate(path)))
        found[labels] = found.get(labels, 0.0) + float(chance)
    return found


COUNTS = np.array([2, 1], np.int32)


def _loss(log_probs: np.ndarray, labels: np.ndarray, blank: int) -> np.ndarray:
    """Return the loss of both samples from the sum over their paths."""
    return -np.log(
        [
            _likelihoods(log_probs[:, sample], length, blank)[
                tuple(labels[sample, : COUNTS[sample]])
            ]
            for sample, length in enumerate(LENGTHS)
        ]
    )


@pytest.mark.parametrize("blank", [0, 1, 2])
def test_ctc_loss_is_that_of_all_paths(blank: int) -> None:
    logits = _logits()
    one, two = [label for label in range(CLASSES) if label != blank]
    labels = np.array([[one, one], [two, blank]], np.int32)
    log_probs = _log_softmax(logits)
    loss = nn_ops.ctc_loss_v2(labels, logits, COUNTS, LENGTHS, blank)
    np.testing.assert_allclose(loss, _loss(log_probs, labels, blank), rtol=1e-4)
    # Log probabilities count as they are, also if they do not sum to one.
    lower = log_probs - 0.3
    loss = nn_ops.ctc_loss_with_log_probs(labels, lower, COUNTS, LENGTHS, blank)
    np.testing.assert_allclose(loss, _loss(lower, labels, blank), rtol=1e-4)


@pytest.mark.parametrize(
    ("function", "normalise"),
    [
        (nn_ops.ctc_loss_v2, _log_softmax),
        (nn_ops.ctc_loss_with_log_probs, lambda data: data),
    ],
)
def test_ctc_gradients(function: Any, normalise: Any) -> None:
    labels, data = np.array([[1, 2], [2, 0]], np.int32), _log_softmax(_logits())
    tensor = tf.constant(data, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(tensor)
        loss = tf.reduce_sum(function(labels, tensor, COUNTS, LENGTHS, 0))
    gradient = tape.gradient(loss, tensor).numpy()
    for index in [(0, 0, 0), (1, 0, 2), (2, 1, 1), (3, 1, 1)]:
        step = np.zeros_like(data)
        step[index] = 1e-4
        sums = [_loss(normalise(data + s), labels, 0).sum() for s in (step, -step)]
        assert gradient[index] == pytest.approx((sums[0] - sums[1]) / 2e-4, abs=1e-4)


def test_ctc_losses_have_the_type_that_is_asked_for() -> None:
    logits, counts = _logits(), np.array([1, 1], np.int32)
    labels = np.array([[1], [2]], np.int32)
    half = nn_ops.ctc_loss_v2(labels, logits.astype(np.float16), counts, LENGTHS, 0)
    assert half.dtype == tf.float16
    whole = nn_ops.ctc_loss_v2(
        labels, logits.astype(np.float16), counts, LENGTHS, 0, tf.float32
    )
    assert whole.dtype == tf.float32
    for function in (nn_ops.ctc_loss_v2, nn_ops.ctc_loss_with_log_probs):
        with pytest.raises(ValueError, match="out_dtype cannot be float16"):
            function(labels, logits, counts, LENGTHS, 0, tf.float16)


@pytest.mark.parametrize("blank", [0, 1, -1])
def test_beam_search_finds_the_best_labellings(blank: int) -> None:
    logits = _logits()
    log_probs = _log_softmax(logits)
    results = (
        nn_ops.ctc_beam_search_decoder(logits, LENGTHS, 100, 2, blank),
        nn_ops.ctc_beam_search_decoder_with_log_probs(
            log_probs.astype(np.float32), LENGTHS, 100, 2, blank
        ),
    )
    for scores, lengths, labels in results:
        assert labels.shape == (BATCH, 2, TIME)
        for sample, length in enumerate(LENGTHS):
            chances = _likelihoods(log_probs[:, sample], length, blank % CLASSES)
            best = sorted(chances.items(), key=lambda item: -item[1])[:2]
            for path, (expected, chance) in enumerate(best):
                count = int(lengths[sample, path])
                assert tuple(labels[sample, path, :count].numpy()) == expected
                score = float(scores[sample, path])
                assert score == pytest.approx(-np.log(chance), rel=1e-3)
                assert (labels[sample, path, count:].numpy() == blank % CLASSES).all()


def test_more_paths_than_beams_are_refused() -> None:
    with pytest.raises(ValueError, match="top_paths is 3"):
        nn_ops.ctc_beam_search_decoder(_logits(), LENGTHS, 2, 3)


def test_ctc_layers_wrap_the_operations() -> None:
    logits, counts = _logits(), np.array([1, 1], np.int32)
    labels = np.array([[1], [2]], np.int32)
    loss = layers.CTCLoss(from_logits=True)(labels, logits, counts, LENGTHS)
    losses = nn_ops.ctc_loss_v2(labels, logits, counts, LENGTHS, 0)
    np.testing.assert_allclose(loss, [np.mean(losses)], rtol=1e-6)
    log_probs = _log_softmax(logits).astype(np.float32)
    loss = layers.CTCLoss()(labels, log_probs, counts, LENGTHS)
    np.testing.assert_allclose(loss, [np.mean(losses)], rtol=1e-4)
    inference = layers.CTCInferenceLayer(beam_width=20, top_paths=3, from_logits=True)
    _, lengths, paths = inference(logits, LENGTHS)
    predictions = layers.CTCPredictionsLayer(
        beam_width=20, top_paths=3, from_logits=True
    )
    best = predictions(logits, LENGTHS)
    np.testing.assert_array_equal(best, paths[:, 0])
    assert (best[0, int(lengths[0, 0]) :].numpy() == 0).all()


@pytest.mark.parametrize(
    "layer",
    [
        layers.CTCLoss(blank_index=2, from_logits=True),
        layers.CTCInferenceLayer(beam_width=3),
        layers.CTCPredictionsLayer(top_paths=2, beam_width=3),
    ],
)
def test_ctc_layers_can_be_made_from_their_configuration(layer: Any) -> None:
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()


def test_ctc_loss_trains_as_the_output_of_a_model() -> None:
    inputs = [
        keras.Input((2,), batch_size=BATCH, dtype="int32"),
        keras.Input((TIME, 5), batch_size=BATCH),
        keras.Input((), batch_size=BATCH, dtype="int32"),
        keras.Input((), batch_size=BATCH, dtype="int32"),
    ]
    labels, data, label_length, data_length = inputs
    x = keras.layers.Dense(CLASSES)(data)
    x = keras.ops.transpose(x, (1, 0, 2))
    loss = layers.CTCLoss(from_logits=True)(labels, x, label_length, data_length)
    model = keras.Model(inputs, loss)
    model.compile("adam", loss=lambda _, value: value)
    features = RNG.normal(size=(BATCH, TIME, 5)).astype(np.float32)
    given = [np.array([[1, 2], [2, 1]]), features, np.array([2, 2]), LENGTHS]
    losses = [model.train_on_batch(given, np.zeros(BATCH)) for _ in range(20)]
    assert losses[-1] < losses[0]


def test_effective_transformer_is_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match="EffectiveTransformer"):
        layers.EffectiveTransformer(4, 2)


def _decoded(code: int, exponent_bits: int, scale: int) -> float:
    """Return the value of a code from its bits."""
    mantissa_bits = 7 - exponent_bits
    sign = -1.0 if code & 0x80 else 1.0
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = (code & ((1 << mantissa_bits) - 1)) / 2.0**mantissa_bits
    if code == 0x80:
        return float("nan")
    bias = 1 << (exponent_bits - 1)
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias + scale)
    return sign * (1 + mantissa) * 2.0 ** (exponent - bias + scale)


@pytest.mark.parametrize(
    ("fmt", "exponent_bits", "scale"),
    [
        (f8_ops.Format.F143, 4, 0),
        (f8_ops.Format.F143, 4, -3),
        (f8_ops.Format.F152, 5, 0),
        (f8_ops.Format.F152, 5, -2),
    ],
)
def test_codes_have_the_values_of_their_bits(
    fmt: f8_ops.Format, exponent_bits: int, scale: int
) -> None:
    codes = np.arange(256, dtype=np.uint8)
    metadata = f8_ops.create_metadata(fmt, scale)
    values = f8_ops.convert_from_f8((codes, metadata), tf.float32)
    expected = [_decoded(code, exponent_bits, scale) for code in range(256)]
    np.testing.assert_array_equal(values, np.float32(expected))
    back = f8_ops.convert_to_f8(values, metadata)
    np.testing.assert_array_equal(back.data, codes)


@pytest.mark.parametrize(
    ("fmt", "exponent_bits"), [(f8_ops.Format.F143, 4), (f8_ops.Format.F152, 5)]
)
def test_values_go_to_the_nearest_code(fmt: f8_ops.Format, exponent_bits: int) -> None:
    table = np.array([_decoded(code, exponent_bits, -1) for code in range(128)])
    drawn = RNG.normal(size=400).astype(np.float16) * np.float16(30)
    ties = ((table[1:] + table[:-1]) / 2).astype(np.float16)
    ends = np.array([0.0, -0.0, 6e4, -6e4, -1e-6], np.float16)
    values = np.concatenate([drawn, ties, -ties, ends])
    found = f8_ops.convert_to_f8(values, f8_ops.create_metadata(fmt, -1)).data.numpy()
    for value, code in zip(values.astype(np.float64), found, strict=True):
        gaps = np.abs(table - abs(value))
        nearest = np.flatnonzero(gaps == gaps.min())
        even = nearest[nearest % 2 == 0] if len(nearest) > 1 else nearest
        size = int(even[0])
        assert code == (size | 0x80 if value < 0 and size else size)
    nan = f8_ops.convert_to_f8(np.array([np.nan], np.float32), 128)
    assert nan.data.numpy().tolist() == [0x80]


def test_products_and_convolutions_of_codes() -> None:
    def quarter(*shape: int) -> tuple[Any, np.ndarray]:
        values = RNG.integers(-8, 8, size=shape).astype(np.float16)
        metadata = f8_ops.create_metadata(f8_ops.Format.F143, 1)
        packed = f8_ops.convert_to_f8(values, metadata)
        return packed, f8_ops.convert_from_f8(packed, tf.float32).numpy()

    a, a_values = quarter(3, 4)
    b, b_values = quarter(4, 2)
    product = f8_ops.f8_matmul(a, b)
    assert product.dtype == tf.float16
    np.testing.assert_array_equal(product, a_values @ b_values)
    groups, group_values = quarter(2, 3, 4)
    both = f8_ops.f8_matmul(
        groups, f8_ops.QuarterTensor(tf.stack([b.data] * 2), b.metadata)
    )
    np.testing.assert_array_equal(both, group_values @ b_values)
    x, x_values = quarter(1, 5, 2)
    kernel, kernel_values = quarter(3, 2, 2)
    expected = np.stack(
        [
            np.einsum("wi,wio->o", x_values[0, start : start + 3], kernel_values)
            for start in (0, 2)
        ]
    )
    result = f8_ops.f8_conv_1d(x, kernel, 2, "VALID")
    np.testing.assert_array_equal(result, expected[None])
    turned = f8_ops.QuarterTensor(tf.transpose(x.data, [0, 2, 1]), x.metadata)
    result = f8_ops.f8_conv_1d(turned, kernel, [1, 1, 2], "VALID", "NCW")
    np.testing.assert_array_equal(result, expected.T[None])
    plane, plane_values = quarter(1, 3, 3, 2)
    square, square_values = quarter(3, 3, 2, 1)
    result = f8_ops.f8_conv_2d(plane, square, [1, 1, 1, 1], "VALID")
    assert float(result[0, 0, 0, 0]) == (plane_values[0] * square_values[..., 0]).sum()
    solid, solid_values = quarter(1, 2, 2, 2, 1)
    cube, cube_values = quarter(2, 2, 2, 1, 1)
    result = f8_ops.f8_conv_3d(solid, cube, [1] * 5, "VALID")
    assert float(tf.squeeze(result)) == (solid_values[0] * cube_values[..., 0]).sum()
    with pytest.raises(ValueError, match="'NWC' or 'NCW'"):
        f8_ops.f8_conv_1d(x, kernel, 2, "VALID", "NHWC")


def test_quarter_tensors_hold_bytes_only() -> None:
    tensor = f8_ops.QuarterTensor(np.zeros((2, 3), np.uint8), 128)
    assert tensor.shape == (2, 3)
    assert len(tensor) == 2
    assert tensor.dtype == tf.uint8
    other = f8_ops.QuarterTensor(np.ones((2, 3), np.uint8), 1)
    other.assign(tensor.numpy())
    assert other == tensor
    with pytest.raises(TypeError, match="float32"):
        f8_ops.QuarterTensor(tf.zeros(3), 128)
