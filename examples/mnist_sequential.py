"""Train a small dense model, written with the Sequential API, on endless data.

The data set repeats, so an epoch is as long as `--steps-per-epoch` says, and the IPU
works through `--steps-per-execution` batches each time the host starts it.
"""

import argparse

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.python import ipu


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--steps-per-epoch", type=int, default=2000)
    parser.add_argument("--steps-per-execution", type=int, default=100)
    parser.add_argument("--samples", type=int, default=0, help="0 means all")
    return parser.parse_args(arguments)


def endless_batches(args):
    (images, digits), _ = keras.datasets.mnist.load_data()
    samples = tf.data.Dataset.from_tensor_slices((images, digits))
    if args.samples:
        samples = samples.take(args.samples)

    def as_floats(images, digits):
        return tf.cast(images, tf.float32) / 255, tf.cast(digits, tf.float32)

    # Every pass is mixed anew. A last, smaller batch would leave the shape unknown.
    mixed = samples.shuffle(10_000).repeat()
    return mixed.batch(args.batch_size, drop_remainder=True).map(as_floats)


def build_model():
    model = keras.Sequential()
    model.add(layers.Flatten())
    model.add(layers.Dense(128, activation="relu"))
    model.add(layers.Dense(10, activation="softmax"))
    return model


def main(arguments=None):
    args = parse_arguments(arguments)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    with ipu.ipu_strategy.IPUStrategy().scope():
        model = build_model()
        model.compile(
            optimizer=keras.optimizers.SGD(),
            loss=keras.losses.SparseCategoricalCrossentropy(),
            steps_per_execution=args.steps_per_execution,
        )
        history = model.fit(
            endless_batches(args),
            epochs=args.epochs,
            steps_per_epoch=args.steps_per_epoch,
            verbose=2,
        )
    return history.history["loss"]


if __name__ == "__main__":
    main()
