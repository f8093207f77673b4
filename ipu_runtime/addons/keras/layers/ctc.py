"""Layers around the CTC operations; the data has time first."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.ops import nn_ops


class CTCLoss(keras.layers.Layer):
    """The mean CTC loss of a batch, as the output of a model."""

    def __init__(
        self, blank_index: int = 0, from_logits: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.blank_index = blank_index
        self.from_logits = from_logits

    def call(
        self,
        labels: Any,
        data: Any,
        label_length: Any,
        data_length: Any,
        **kwargs: Any,
    ) -> Any:
        """Return the loss as a vector of one."""
        del kwargs
        loss = (
            nn_ops.ctc_loss_v2 if self.from_logits else nn_ops.ctc_loss_with_log_probs
        )
        losses = loss(labels, data, label_length, data_length, self.blank_index)
        return tf.reshape(tf.reduce_mean(losses), [1])

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        return {
            **super().get_config(),
            "blank_index": self.blank_index,
            "from_logits": self.from_logits,
        }


class CTCInferenceLayer(keras.layers.Layer):
    """The best paths of a beam search: scores, lengths and labels."""

    def __init__(
        self,
        blank_index: int = 0,
        beam_width: int = 100,
        top_paths: int = 1,
        from_logits: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.blank_index = blank_index
        self.beam_width = beam_width
        self.top_paths = top_paths
        self.from_logits = from_logits

    def call(self, data: Any, data_length: Any, **kwargs: Any) -> Any:
        """Return negative log probabilities, lengths and labels."""
        del kwargs
        decode = (
            nn_ops.ctc_beam_search_decoder
            if self.from_logits
            else nn_ops.ctc_beam_search_decoder_with_log_probs
        )
        return decode(
            data, data_length, self.beam_width, self.top_paths, self.blank_index
        )

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        names = ("blank_index", "beam_width", "top_paths", "from_logits")
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
        }


class CTCPredictionsLayer(CTCInferenceLayer):
    """The labels of the most likely path, filled up with the blank."""

    def call(self, data: Any, data_length: Any, **kwargs: Any) -> Any:
        """Return labels by sample and step."""
        scores, lengths, labels = super().call(data, data_length)
        best = tf.argmin(scores, axis=1)
        labels = tf.gather(labels, best, batch_dims=1)
        lengths = tf.gather(lengths, best, batch_dims=1)
        used = tf.sequence_mask(lengths, tf.shape(labels)[1])
        return tf.where(used, labels, self.blank_index)
