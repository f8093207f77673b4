"""Activations, sampled losses and CTC: `ipu.ops.nn_ops`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.types import DType, Structure, Tensor


def gelu(x: Tensor, approximate: bool = True, name: str | None = None) -> Tensor:
    """Return the Gaussian error linear unit, by default through tanh."""
    return tf.nn.gelu(x, approximate=approximate, name=name)


def hard_sigmoid(x: Tensor, name: str | None = None) -> Tensor:
    """Return `0.2 x + 0.5` between 0 and 1, which is not Keras 3's line."""
    return tf.clip_by_value(0.2 * tf.convert_to_tensor(x) + 0.5, 0, 1, name=name)


def swish(x: Tensor, name: str | None = None) -> Tensor:
    """Return `x` times its sigmoid."""
    x = tf.convert_to_tensor(x)
    return tf.multiply(x, tf.sigmoid(x), name=name)


def softmax(x: Tensor, stable: bool = False, name: str | None = None) -> Tensor:
    """Return the softmax over the last dimension; without `stable` it can overflow."""
    x = tf.convert_to_tensor(x)
    if stable:
        return tf.nn.softmax(x, name=name)
    powers = tf.exp(x)
    return tf.divide(powers, tf.reduce_sum(powers, axis=-1, keepdims=True), name=name)


def multi_conv(func: Callable[..., Any] | None = None, options: Any = None) -> Any:
    """Return a function that computes the same; convolutions share the device."""

    def decorate(inner: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(inner)
        def run(*args: Any) -> Any:
            if options and not isinstance(options, dict):
                raise TypeError(
                    "Expected the multi_conv `options` to be a `dict`, but got "
                    f"{options!r} instead."
                )
            return inner(*args)

        return run

    return decorate(func) if func is not None else decorate


def nce_loss(
    weights: Structure,
    biases: Structure,
    labels: Tensor,
    inputs: Tensor,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Structure = None,
    name: str = "nce_loss",
) -> Tensor:
    """Return the noise-contrastive loss of every sample."""
    inputs = tf.convert_to_tensor(inputs)
    losses = tf.compat.v1.nn.nce_loss(
        _table(weights),
        _table(biases),
        labels,
        tf.cast(inputs, tf.float32),
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        remove_accidental_hits=False,
        name=name,
    )
    return tf.cast(losses, inputs.dtype)


def sampled_softmax_loss(
    weights: Structure,
    biases: Structure,
    labels: Tensor,
    inputs: Tensor,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Structure = None,
    name: str = "sampled_softmax_loss",
    seed: int | None = None,
) -> Tensor:
    """Return the softmax loss over sampled classes; drawn true classes stay in."""
    inputs = tf.convert_to_tensor(inputs)
    losses = tf.compat.v1.nn.sampled_softmax_loss(
        _table(weights),
        _table(biases),
        labels,
        tf.cast(inputs, tf.float32),
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        remove_accidental_hits=False,
        name=name,
        seed=seed,
    )
    return tf.cast(losses, inputs.dtype)


def _table(rows: Structure) -> Tensor:
    """Return rows as one tensor with a dense gradient, as on the device."""
    whole = tf.concat(rows, 0) if isinstance(rows, (list, tuple)) else rows
    whole = tf.cast(whole, tf.float32)
    # The gradient of a reshape is dense, also when that of a lookup is not.
    return tf.reshape(whole, tf.shape(whole))


def ctc_loss_v2(
    labels: Tensor,
    logits: Tensor,
    label_length: Tensor,
    logit_length: Tensor,
    blank_index: int,
    out_dtype: DType = None,
    name: str | None = None,
) -> Tensor:
    """Return the CTC loss of every sample, from logits with time first."""
    logits = tf.convert_to_tensor(logits)
    dtype = _loss_type("logits", logits, out_dtype)
    loss = _ctc(labels, logits, label_length, logit_length, blank_index)
    return tf.cast(loss, dtype, name=name)


def ctc_loss_with_log_probs(
    labels: Tensor,
    data: Tensor,
    label_length: Tensor,
    data_length: Tensor,
    blank_index: int,
    out_dtype: DType = None,
    name: str | None = None,
) -> Tensor:
    """Return the CTC loss of every sample, from log probabilities with time first."""
    data = tf.convert_to_tensor(data)
    dtype = _loss_type("data", data, out_dtype)
    loss = _ctc(labels, data, label_length, data_length, blank_index)
    # Logits may be shifted by any constant, log probabilities count as they are.
    return tf.cast(loss - _log_sum(data, data_length), dtype, name=name)


def ctc_beam_search_decoder(
    logits: Tensor,
    logits_lengths: Tensor,
    beam_width: int = 100,
    top_paths: int = 1,
    blank_index: int = -1,
    name: str | None = None,
) -> Any:
    """Return negative log probabilities, lengths and labels of the best paths.

    Behind its length a path is filled with the blank.
    """
    logits = tf.convert_to_tensor(logits)
    if not 1 <= top_paths <= beam_width:
        raise ValueError(
            f"top_paths is {top_paths}; it must be from 1 to beam_width ({beam_width})."
        )
    time, batch, classes = logits.shape.as_list()
    blank = blank_index % classes
    # TensorFlow's blank is the last class.
    order = [*range(blank), *range(blank + 1, classes), blank]
    found, log_probabilities = tf.nn.ctc_beam_search_decoder(
        tf.cast(tf.gather(logits, order, axis=2), tf.float32),
        logits_lengths,
        beam_width,
        top_paths,
    )
    paths = []
    for sparse in found:
        path = tf.cast(tf.sparse.to_dense(sparse, default_value=-1), tf.int32)
        width = tf.maximum(time - tf.shape(path)[1], 0)
        path = tf.pad(path, [[0, 0], [0, width]], constant_values=-1)
        paths.append(tf.ensure_shape(path, [batch, time]))
    labels = tf.stack(paths, axis=1)
    is_label = labels >= 0
    labels = tf.where(is_label, labels + tf.cast(labels >= blank, tf.int32), blank)
    lengths = tf.reduce_sum(tf.cast(is_label, tf.int32), axis=2)
    return tf.cast(-log_probabilities, logits.dtype, name=name), lengths, labels


def ctc_beam_search_decoder_with_log_probs(
    log_probs: Tensor,
    input_lengths: Tensor,
    beam_width: int = 100,
    top_paths: int = 1,
    blank_index: int = -1,
    name: str | None = None,
) -> Any:
    """Return what `ctc_beam_search_decoder` does, from log probabilities."""
    log_probs = tf.convert_to_tensor(log_probs)
    scores, lengths, labels = ctc_beam_search_decoder(
        log_probs, input_lengths, beam_width, top_paths, blank_index, name
    )
    total = tf.cast(_log_sum(log_probs, input_lengths), scores.dtype)
    return scores - total[:, None], lengths, labels


def _ctc(
    labels: Tensor, data: Tensor, label_length: Tensor, length: Tensor, blank: int
) -> Tensor:
    return tf.nn.ctc_loss(
        labels,
        tf.cast(data, tf.float32),
        label_length,
        length,
        blank_index=blank,
    )


def _log_sum(data: Tensor, length: Tensor) -> Tensor:
    """Return the logarithm of the total probability of all paths of a sample."""
    data = tf.cast(data, tf.float32)
    steps = tf.sequence_mask(length, tf.shape(data)[0], tf.float32)
    return tf.reduce_sum(tf.transpose(tf.reduce_logsumexp(data, axis=2)) * steps, 1)


def _loss_type(argument: str, data: Tensor, out_dtype: DType) -> DType:
    dtype = data.dtype if out_dtype is None else tf.as_dtype(out_dtype)
    if data.dtype == tf.float32 and dtype == tf.float16:
        raise ValueError(
            f"out_dtype cannot be float16 when dtype of {argument} is float32."
        )
    return dtype
