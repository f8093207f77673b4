"""Six models that nothing in the engine was tuned for, as a user would write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers


@dataclass(frozen=True, slots=True)
class UntunedModel:
    """A model with the data that it takes."""

    build: Callable[[], Any]
    batch_size: int
    classes: int | None
    """Of its labels; None if it is trained to return what it is given."""
    tokens: int | None = None
    """Different tokens of the input; None if the input is made of real numbers."""

    def compiled(self, steps_per_execution: int) -> Any:
        """Return the model, with the weights that it always starts with."""
        keras.utils.set_random_seed(7)
        model = self.build()
        model.compile(
            optimizer=keras.optimizers.Adam(1e-3),
            loss="sparse_categorical_crossentropy" if self.classes else "mse",
            metrics=["accuracy"] if self.classes else [],
            steps_per_execution=steps_per_execution,
        )
        return model

    def data(self, model: Any, batches: int) -> tuple[Any, Any]:
        """Return inputs and targets of some batches."""
        random = np.random.default_rng(11)
        samples = batches * self.batch_size
        shape = (samples, *model.input_shape[1:])
        if self.tokens:
            x = random.integers(0, self.tokens, shape).astype(np.int32)
        else:
            x = random.random(shape).astype(np.float32)
        if self.classes is None:
            return x, x
        shape = (samples, *model.output_shape[1:-1])
        return x, random.integers(0, self.classes, shape).astype(np.int32)


def lstm() -> Any:
    """Return a classifier of sequences of numbers."""
    x = inputs = keras.Input((32, 16))
    x = layers.LSTM(64)(x)
    return keras.Model(inputs, layers.Dense(10, activation="softmax")(x))


def gru() -> Any:
    """Return a classifier of token sequences, with two recurrent layers."""
    x = inputs = keras.Input((24,), dtype="int32")
    x = layers.Embedding(500, 32)(x)
    x = layers.GRU(48, return_sequences=True)(x)
    x = layers.GRU(48)(x)
    return keras.Model(inputs, layers.Dense(4, activation="softmax")(x))


def transformer() -> Any:
    """Return a classifier of token sequences, with two blocks of attention."""
    x = inputs = keras.Input((64,), dtype="int32")
    x = layers.Embedding(1000, 64)(x)
    for _ in range(2):
        attended = layers.MultiHeadAttention(4, 16)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, attended]))
        widened = layers.Dense(256, activation="gelu")(x)
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dense(64)(widened)]))
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(4, activation="softmax")(x))


def residual_cnn() -> Any:
    """Return a classifier of images, with skips and batch normalisation."""
    x = inputs = keras.Input((32, 32, 3))
    for filters, strides in ((16, 1), (32, 2), (64, 2)):
        skip = layers.Conv2D(filters, 1, strides=strides)(x)
        for step in (strides, 1):
            x = layers.Conv2D(filters, 3, step, padding="same", use_bias=False)(x)
            x = layers.ReLU()(layers.BatchNormalization()(x))
        x = layers.Add()([x, skip])
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10, activation="softmax")(x))


def u_net() -> Any:
    """Return a model that gives every pixel a class, with skips at two sizes."""
    x = inputs = keras.Input((32, 32, 3))
    skips = []
    for filters in (8, 16):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(x)
    for filters, skip in ((16, skips[1]), (8, skips[0])):
        x = layers.Conv2DTranspose(filters, 2, strides=2)(x)
        x = layers.Concatenate()([x, skip])
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return keras.Model(inputs, layers.Conv2D(3, 1, activation="softmax")(x))


def autoencoder() -> Any:
    """Return a dense autoencoder."""
    x = inputs = keras.Input((784,))
    for units in (256, 64, 16, 64, 256):
        x = layers.Dense(units, activation="relu")(x)
    return keras.Model(inputs, layers.Dense(784, activation="sigmoid")(x))


UNTUNED: Mapping[str, UntunedModel] = {
    "LSTM": UntunedModel(lstm, 32, 10),
    "GRU": UntunedModel(gru, 32, 4, tokens=500),
    "transformer": UntunedModel(transformer, 16, 4, tokens=1000),
    "residual CNN": UntunedModel(residual_cnn, 16, 10),
    "U-Net": UntunedModel(u_net, 16, 3),
    "autoencoder": UntunedModel(autoencoder, 64, None),
}
