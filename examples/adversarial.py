"""Two networks against each other: one makes points, one tells them from real ones.

Each has an optimizer of its own, so that the training step is written by hand and runs
in a loop on the device. The real points lie on a ring.
"""

import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

LATENT = 8
"""Random numbers from which a point is made."""


def build_network(inputs, units, outputs):
    return keras.Sequential(
        [
            keras.layers.Dense(units, activation="relu", input_shape=(inputs,)),
            keras.layers.Dense(units, activation="relu"),
            keras.layers.Dense(outputs),
        ]
    )


def draw_ring(count, seed=0):
    """Return points near the unit circle."""
    random = np.random.RandomState(seed)
    angle = random.uniform(0, 2 * np.pi, count)
    radius = random.normal(1.0, 0.05, count)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return points.astype(np.float32)


def noise(count, step):
    """Return random numbers that depend on the step and on the replica."""
    replica = ipu.replication_ops.replication_index()
    seed = tf.stack([tf.cast(step, tf.int32), replica])
    return tf.random.stateless_normal([count, LATENT], seed=seed)


class Game:
    """Both networks, their optimizers, and what they do in a step."""

    def __init__(self, args):
        self.generator = build_network(LATENT, args.units, 2)
        self.discriminator = build_network(2, args.units, 1)
        self.networks = (self.generator, self.discriminator)
        rates = (args.generator_rate, args.discriminator_rate)
        self.optimizers = [keras.optimizers.Adam(rate, beta_1=0.5) for rate in rates]
        self.entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    def losses(self, real, latent):
        """Return what the generator and the discriminator each want to lower."""
        made = self.discriminator(self.generator(latent, training=True), training=True)
        judged = self.discriminator(real, training=True)
        caught = self.entropy(tf.ones_like(judged), judged)
        caught += self.entropy(tf.zeros_like(made), made)
        return self.entropy(tf.ones_like(made), made), caught

    def step(self, real):
        """Let both networks learn from a batch of real points."""
        latent = noise(real.shape[0], self.optimizers[0].iterations)
        sides = [network.trainable_variables for network in self.networks]
        with tf.GradientTape(persistent=True) as tape:
            losses = self.losses(real, latent)
        # Both learn from what they were before either has changed.
        gradients = [tape.gradient(losses[side], sides[side]) for side in (0, 1)]
        for side in (0, 1):
            pairs = zip(gradients[side], sides[side])  # noqa: B905
            self.optimizers[side].apply_gradients(pairs)
        return losses


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=32)
    parser.add_argument("--batch-size", type=int, default=64, help="of each replica")
    parser.add_argument("--steps", type=int, default=100, help="in a run of the device")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--generator-rate", type=float, default=1e-3)
    parser.add_argument("--discriminator-rate", type=float, default=1e-3)
    parser.add_argument("--replicas", type=int, default=1, choices=(1, 2, 4))
    return parser.parse_args(arguments)


def main(arguments=None):
    args = parse_arguments(arguments)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = args.replicas
    config.configure_ipu_system()
    strategy = ipu.ipu_strategy.IPUStrategy()
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    points = draw_ring(8 * args.batch_size)
    dataset = tf.data.Dataset.from_tensor_slices(points).repeat()
    dataset = dataset.batch(args.batch_size, drop_remainder=True)
    with strategy.scope():
        game = Game(args)
        iterator = iter(dataset)

        @tf.function(experimental_compile=True)
        def train(iterator):
            for _ in tf.range(args.steps):
                generator, discriminator = game.step(next(iterator))
                outfeed.enqueue({"made": generator, "caught": discriminator})

        history = {"made": [], "caught": []}
        for run in range(args.runs):
            strategy.run(train, args=[iterator])
            for name, values in outfeed.dequeue().items():
                history[name].extend(values.numpy().tolist())
            means = {name: np.mean(history[name][-args.steps :]) for name in history}
            print(f"run {run}: made {means['made']:.3f}, caught {means['caught']:.3f}")
    radius = np.linalg.norm(game.generator(noise(1000, -1)), axis=1)
    print(f"Distance of made points from the middle: {radius.mean():.2f}")
    return game, history


if __name__ == "__main__":
    main()
