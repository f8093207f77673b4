"""A training step of one's own for a Keras model, in a loop on the device.

`strategy.run` makes one program of the function. The host starts it `--runs` times, and
an outfeed brings the losses back.
"""

import argparse

import mnist_data
import numpy as np
import tensorflow as tf
from mnist_model import build_model
from tensorflow import keras
from tensorflow.python import ipu


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=32, help="of each IPU")
    parser.add_argument("--steps", type=int, default=20, help="in a run of the device")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--samples", type=int, default=0, help="0 means all")
    return parser.parse_args(arguments)


def make_program(model, optimizer, outfeed, steps):
    """Return a function that trains for one run of the device."""
    entropy = keras.losses.CategoricalCrossentropy()

    @tf.function(experimental_compile=True)
    def train(iterator):
        for _ in tf.range(steps):
            images, labels = next(iterator)
            with tf.GradientTape() as tape:
                loss = entropy(labels, model(images, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            # Every IPU has gradients of its own batch: their sum trains all of them.
            gradients = [ipu.cross_replica_ops.cross_replica_sum(g) for g in gradients]
            pairs = zip(gradients, model.trainable_variables)  # noqa: B905
            optimizer.apply_gradients(pairs)
            outfeed.enqueue(loss)

    return train


def main(arguments=None):
    args = parse_arguments(arguments)
    keras.utils.set_random_seed(1)
    train, _ = mnist_data.load(args.samples)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    strategy = ipu.ipu_strategy.IPUStrategy()
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    history = []
    with strategy.scope():
        model = build_model()
        optimizer = keras.optimizers.SGD(0.01)
        program = make_program(model, optimizer, outfeed, args.steps)
        iterator = iter(mnist_data.repeat(train, args.batch_size))
        for run in range(args.runs):
            strategy.run(program, args=[iterator])
            history.append(float(np.mean(outfeed.dequeue())))
            print(f"run {run}: loss {history[-1]:.6f}")
    return history


if __name__ == "__main__":
    main()
