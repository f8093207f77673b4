"""A line through points, in a program of the older API: a graph, a loop, a session.

The loop runs on the device and takes its data from an infeed; the losses of its
iterations come back through an outfeed.
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu


def make_points(count, features, seed=0):
    """Return points, and heights that lie on a plane above them."""
    random = np.random.RandomState(seed)
    points = random.normal(size=(count, features)).astype(np.float32)
    slope = random.normal(size=(features, 1)).astype(np.float32)
    return points, points @ slope + 0.5


def make_program(infeed, outfeed, args):
    """Return a function that trains for one run of the device."""

    def step(points, heights):
        shape = [args.features, 1]
        weights = tf.get_variable("weights", shape, initializer=tf.zeros_initializer())
        offset = tf.get_variable("offset", [1], initializer=tf.zeros_initializer())
        error = tf.matmul(points, weights) + offset - heights
        loss = tf.reduce_mean(tf.square(error))
        train = tf.train.GradientDescentOptimizer(args.rate).minimize(loss)
        return train, outfeed.enqueue({"loss": loss})

    def program():
        return ipu.loops.repeat(args.steps, step, [], infeed)

    return program


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--steps", type=int, default=20, help="in a run of the device")
    parser.add_argument("--runs", type=int, default=5)
    return parser.parse_args(arguments)


def main(arguments=None):
    args = parse_arguments(arguments)
    tf.disable_v2_behavior()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    points, heights = make_points(8 * args.batch_size, args.features)
    dataset = tf.data.Dataset.from_tensor_slices((points, heights)).repeat()
    dataset = dataset.batch(args.batch_size, drop_remainder=True)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        train = ipu.ipu_compiler.compile(make_program(infeed, outfeed, args))
    losses = outfeed.dequeue()
    history = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        for run in range(args.runs):
            session.run(train)
            history.append(float(np.mean(session.run(losses)["loss"])))
            print(f"run {run}: loss {history[-1]:.4f}")
    return history


if __name__ == "__main__":
    main()
