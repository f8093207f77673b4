"""Which epidemics look like the one observed: simulations by the thousand.

Approximate Bayesian computation: draw how infectious a disease is and how fast people
recover, simulate the epidemic, and keep what comes close to the observed course. Every
replica draws and simulates on its own; the host only counts what is good enough.
"""

import argparse

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

POPULATION = 10_000.0
INFECTED = 20.0
HIGHEST = (1.0, 0.5)
"""Upper limits of the rates of infection and recovery per day."""


def simulate(infection, recovery, days, noise):
    """Return how many people are ill on each day, one row per simulation."""
    ill = tf.fill(tf.shape(infection), INFECTED)
    healthy = POPULATION - ill
    course = tf.TensorArray(tf.float32, size=days, element_shape=infection.shape)
    for day in tf.range(days):
        new = infection * healthy * ill / POPULATION
        well = recovery * ill
        # Many small chances add up to a normal distribution.
        new += noise * tf.sqrt(new) * tf.random.normal(tf.shape(new))
        well += noise * tf.sqrt(well) * tf.random.normal(tf.shape(well))
        new = tf.clip_by_value(new, 0.0, healthy)
        well = tf.clip_by_value(well, 0.0, ill)
        healthy -= new
        ill += new - well
        course = course.write(day, ill)
    return tf.transpose(course.stack())


def make_program(observed, args, outfeed):
    """Return a function that simulates for one run of the device."""

    @tf.function(experimental_compile=True)
    def program(tolerance):
        for _ in tf.range(args.batches):
            rates = tf.random.uniform([args.batch_size, 2]) * HIGHEST
            course = simulate(rates[:, 0], rates[:, 1], len(observed), args.noise)
            distance = tf.norm(course - observed, axis=1) / tf.norm(observed)
            # Shapes are fixed: as many as may be good, and how good they are.
            nearest, index = tf.math.top_k(-distance, k=args.keep)
            accepted = tf.cast(-nearest < tolerance, tf.int32)
            outfeed.enqueue(
                {
                    "rates": tf.gather(rates, index),
                    "distance": -nearest,
                    "accepted": accepted,
                }
            )

    return program


def observe(args):
    """Return the course of an epidemic whose rates are known."""
    rates = np.array([[0.4, 0.15]], np.float32)
    return simulate(rates[:, 0], rates[:, 1], args.days, 0.0)[0].numpy()


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=40)
    parser.add_argument("--samples", type=int, default=50, help="to accept")
    parser.add_argument("--tolerance", type=float, default=0.2, help="of the distance")
    parser.add_argument("--noise", type=float, default=1.0, help="0: none")
    parser.add_argument("--batch-size", type=int, default=500, help="simulations")
    parser.add_argument("--batches", type=int, default=4, help="in a run of the device")
    parser.add_argument("--keep", type=int, default=10, help="of each batch, at most")
    parser.add_argument("--replicas", type=int, default=2, choices=(1, 2, 4))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-runs", type=int, default=100)
    return parser.parse_args(arguments)


def main(arguments=None):
    args = parse_arguments(arguments)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = args.replicas
    config.configure_ipu_system()
    ipu.utils.reset_ipu_seed(args.seed)

    strategy = ipu.ipu_strategy.IPUStrategy()
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    rates, distances, runs = [], [], 0
    with strategy.scope():
        program = make_program(observe(args), args, outfeed)
        while sum(map(len, rates)) < args.samples and runs < args.most_runs:
            strategy.run(program, args=[tf.constant(args.tolerance)])
            results = outfeed.dequeue()
            good = results["accepted"].numpy().astype(bool)
            rates.append(results["rates"].numpy()[good])
            distances.append(results["distance"].numpy()[good])
            runs += 1
    rates, distances = np.concatenate(rates), np.concatenate(distances)
    print(f"{len(rates)} of {simulated(args, runs)} simulations were accepted")
    print("infection {:.3f}, recovery {:.3f}".format(*rates.mean(axis=0)))
    return rates, distances, runs


def simulated(args, runs):
    return runs * args.replicas * args.batches * args.batch_size


if __name__ == "__main__":
    main()
