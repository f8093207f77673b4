"""A picture as a function: a network learns the colour at each place (x, y).

Sines in place of the usual activations let it learn sharp edges. Weights are kept
after every epoch, and TensorBoard can show how training goes.
"""

import argparse
import contextlib
import os

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

FREQUENCY = 20.0
"""Of the first layer's sines: how fine a detail can be."""


class Sine(keras.layers.Layer):
    """A dense layer with a sine as its activation."""

    def __init__(self, units, is_first=False, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.is_first = is_first

    def build(self, input_shape):
        inputs = int(input_shape[-1])
        limit = 1 / inputs if self.is_first else np.sqrt(6 / inputs) / FREQUENCY
        self.kernel = self.add_weight(
            name="kernel",
            shape=(inputs, self.units),
            initializer=keras.initializers.RandomUniform(-limit, limit),
        )
        self.bias = self.add_weight(
            name="bias", shape=(self.units,), initializer="zeros"
        )

    def call(self, x):
        return tf.sin(FREQUENCY * (tf.matmul(x, self.kernel) + self.bias))


def draw_picture(size):
    """Return a picture of rings in three colours, with values from 0 to 1."""
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    rings = [np.sin(12 * np.hypot(x - shift, y)) for shift in (-0.3, 0.0, 0.3)]
    return (0.5 + 0.5 * np.stack(rings, axis=-1)).astype(np.float32)


def make_samples(picture):
    """Return all places of a picture, and their colours."""
    size = len(picture)
    y, x = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    places = np.stack([x, y], axis=-1).astype(np.float32)
    return places.reshape(-1, 2), picture.reshape(-1, 3)


def build_model(args):
    def stage(number):
        if args.pipelined:
            return keras.ipu.PipelineStage(number)
        return contextlib.nullcontext()

    inputs = x = keras.layers.Input(shape=(2,))
    for index in range(args.layers):
        with stage(2 * index // args.layers):
            x = Sine(args.units, is_first=index == 0)(x)
    with stage(1):
        return keras.Model(inputs, keras.layers.Dense(3)(x))


def configure(ipus):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy()


def train(model, data, args):
    callbacks = [
        keras.callbacks.ModelCheckpoint(
            os.path.join(args.directory, "weights-{epoch:03d}"), save_weights_only=True
        ),
        keras.callbacks.TensorBoard(os.path.join(args.directory, "logs")),
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * args.slower),
    ]
    return model.fit(
        *data,
        batch_size=args.batch_size,
        epochs=args.epochs,
        shuffle=False,
        callbacks=callbacks,
        verbose=2,
    )


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=64, help="of the picture")
    parser.add_argument("--units", type=int, default=64, help="of each layer")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=256, help="of each replica")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument(
        "--slower", type=float, default=0.95, help="learning rate from epoch to epoch"
    )
    parser.add_argument("--ipus", type=int, default=1, choices=(1, 2, 4))
    parser.add_argument(
        "--pipelined", action="store_true", help="two IPUs for each replica"
    )
    parser.add_argument("--accumulate", type=int, default=4, help="batches per update")
    parser.add_argument("--directory", default="coordinate_network")
    return parser.parse_args(arguments)


def main(arguments=None):
    args = parse_arguments(arguments)
    picture = draw_picture(args.size)
    data = make_samples(picture)
    replicas = args.ipus // 2 if args.pipelined else args.ipus
    with configure(args.ipus).scope():
        model = build_model(args)
        if args.pipelined:
            model.set_pipelining_options(args.accumulate)
        model.compile(
            optimizer=keras.optimizers.Adam(args.learning_rate),
            loss="mse",
            steps_per_execution=len(data[0]) // (args.batch_size * replicas),
        )
        history = train(model, data, args)
        model.load_weights(tf.train.latest_checkpoint(args.directory))
        drawn = model.predict(data[0], batch_size=args.batch_size, verbose=0)
    error = np.mean((drawn.reshape(picture.shape) - picture) ** 2)
    print(f"Peak signal to noise: {-10 * np.log10(error):.2f} dB")
    return model, history.history


if __name__ == "__main__":
    main()
