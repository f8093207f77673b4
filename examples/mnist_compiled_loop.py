"""Keras layers in a program of the older API: a graph, a loop and a session."""

import argparse

import mnist_data
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.keras import layers
from tensorflow.python import ipu


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=20, help="in a run of the device")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--samples", type=int, default=0, help="0 means all")
    return parser.parse_args(arguments)


def make_program(infeed, outfeed, steps):
    """Return a function that trains for one run of the device."""

    def step(images, labels):
        hidden = layers.Dense(64, activation="relu")(layers.Flatten()(images))
        logits = layers.Dense(mnist_data.NUM_CLASSES)(hidden)
        loss = tf.losses.softmax_cross_entropy(labels, logits)
        optimizer = ipu.optimizers.CrossReplicaOptimizer(
            tf.train.GradientDescentOptimizer(0.05)
        )
        return optimizer.minimize(loss), outfeed.enqueue(loss)

    def program():
        return ipu.loops.repeat(steps, step, [], infeed)

    return program


def main(arguments=None):
    args = parse_arguments(arguments)
    tf.disable_v2_behavior()
    train, _ = mnist_data.load(args.samples)
    data = mnist_data.repeat(train, args.batch_size)
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        program = ipu.ipu_compiler.compile(make_program(infeed, outfeed, args.steps))
    losses = outfeed.dequeue()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    history = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), infeed.initializer])
        for run in range(args.runs):
            session.run(program)
            history.append(float(np.mean(session.run(losses))))
            print(f"run {run}: loss {history[-1]:.6f}")
    return history


if __name__ == "__main__":
    main()
