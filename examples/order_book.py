"""Where does the price go: convolution, LSTM and attention over an order book.

The book is a random walk with the best prices and volumes on both sides. What is
predicted is whether the middle price falls, stays or rises.
"""

import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.python import ipu


class Attention(layers.Layer):
    """Attention of a series to itself, beside the series as it is."""

    def __init__(self, heads, width, dropout, **kwargs):
        super(Attention, self).__init__(**kwargs)  # noqa: UP008
        self.attention = layers.MultiHeadAttention(heads, width // heads)
        self.norm = layers.LayerNormalization(epsilon=1e-6)
        self.dropout = layers.Dropout(dropout)

    def call(self, x, training=None):
        attended = self.attention(x, x)
        return self.norm(x + self.dropout(attended, training=training))


def draw_book(length, levels, seed=0):
    """Return the book at each moment: prices and volumes of asks and bids."""
    random = np.random.RandomState(seed)
    drift = np.sin(np.arange(length) / 8.0)
    middle = np.cumsum(0.3 * drift + random.normal(0, 0.1, length))
    spread = np.cumsum(random.uniform(0.01, 0.1, (length, 2 * levels)), axis=1)
    sides = np.repeat([1.0, -1.0], levels)
    volumes = random.lognormal(0.0, 0.5, (length, 2 * levels))
    return np.concatenate([middle[:, None] + sides * spread, volumes], axis=1)


def make_dataset(book, args):
    """Return windows of the book, each with what the price does after it."""
    middle = (book[:, 0] + book[:, args.levels]) / 2
    change = middle[args.horizon :] - middle[: -args.horizon]
    labels = 1 + (change > args.still).astype(np.int32) - (change < -args.still)
    scaled = (book - book.mean(axis=0)) / book.std(axis=0)
    windows = keras.preprocessing.timeseries_dataset_from_array(
        scaled[: -args.horizon].astype(np.float32),
        labels[args.window - 1 :].astype(np.int32),
        sequence_length=args.window,
        batch_size=args.batch_size,
    )
    # Programs for the IPU want whole batches, and every extent to be known.
    shape = [args.window, book.shape[1]]
    known = windows.unbatch().map(lambda x, y: (tf.ensure_shape(x, shape), y))
    whole = known.batch(args.batch_size, drop_remainder=True).take(args.steps)
    return whole.cache().repeat().prefetch(4)


def build_model(args):
    features = 4 * args.levels
    inputs = keras.Input(shape=(args.window, features))
    x = layers.Conv1D(args.width, 3, padding="causal")(inputs)
    x = layers.LeakyReLU(alpha=0.01)(x)
    x = layers.LSTM(args.width, return_sequences=True)(x)
    x = Attention(args.heads, args.width, args.dropout)(x)
    x = layers.Lambda(lambda series: tf.reduce_mean(series, axis=1))(x)
    return keras.Model(inputs=inputs, outputs=layers.Dense(3)(x))


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--levels", type=int, default=5, help="prices on each side")
    parser.add_argument("--window", type=int, default=20, help="moments to look at")
    parser.add_argument("--horizon", type=int, default=5, help="moments ahead")
    parser.add_argument("--still", type=float, default=0.3, help="no change up to this")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--heads", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--batch-size", type=int, default=16, help="of each replica")
    parser.add_argument("--steps", type=int, default=32, help="batches in an epoch")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--learning-rate", type=float, default=1e-2)
    parser.add_argument("--replicas", type=int, default=1, choices=(1, 2, 4))
    return parser.parse_args(arguments)


def main(arguments=None):
    args = parse_arguments(arguments)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = args.replicas
    config.configure_ipu_system()
    length = args.batch_size * args.steps + args.window + args.horizon
    training, validation = (
        make_dataset(draw_book(length, args.levels, seed), args) for seed in (0, 1)
    )
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = build_model(args)
        model.set_replication_options(replicated_metric_reduction_method="mean")
        model.compile(
            optimizer=keras.optimizers.Adam(args.learning_rate),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            steps_per_execution=args.steps // args.replicas,
        )
        history = model.fit(
            training,
            steps_per_epoch=args.steps,
            validation_data=validation,
            validation_steps=args.steps,
            epochs=args.epochs,
            callbacks=[
                keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True),
                keras.callbacks.ReduceLROnPlateau(patience=2, factor=0.5),
            ],
            verbose=2,
        )
    return model, history.history


if __name__ == "__main__":
    main()
