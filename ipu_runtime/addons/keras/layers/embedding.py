"""An embedding as the IPU has it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_runtime.addons.keras.layers.refusal import refuse
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.ops.embedding_ops import embedding_lookup


class Embedding(keras.layers.Embedding):
    """Keras' embedding for inputs of rank 2, without masks and regularisation.

    Its gradient is dense, as on the device: all rows take part in an update.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        activity_regularizer: Any = None,
        embeddings_constraint: Any = None,
        mask_zero: bool = False,
        input_length: int | None = None,
        serialization_factor: int = 1,
        **kwargs: Any,
    ) -> None:
        refuse(
            "Embedding",
            {
                "embeddings_regularizer": embeddings_regularizer,
                "activity_regularizer": activity_regularizer,
                "embeddings_constraint": embeddings_constraint,
                "mask_zero": mask_zero,
                "input_length": input_length,
            },
        )
        super().__init__(input_dim, output_dim, embeddings_initializer, **kwargs)
        self.serialization_factor = serialization_factor

    def call(self, inputs: Any) -> Any:
        """Look rows up."""
        if len(inputs.shape) != 2:
            raise ValueError(
                "The input of an Embedding must have the shape [batch, length], not "
                f"{tuple(inputs.shape)}."
            )
        ids = tf.cast(inputs, tf.int32)
        rows = embedding_lookup(self.embeddings, ids, self.serialization_factor)
        return tf.cast(rows, self.compute_dtype)

    def get_config(self) -> Any:
        """Return what the constructor takes."""
        config = super().get_config()
        names = (
            "embeddings_regularizer",
            "activity_regularizer",
            "embeddings_constraint",
            "mask_zero",
        )
        kept = {key: value for key, value in config.items() if key not in names}
        return {**kept, "serialization_factor": self.serialization_factor}
