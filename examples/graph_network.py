"""Messages along the edges of graphs: how much energy is in a molecule.

Molecules are made up. All have room for as many atoms and bonds, because programs for
the IPU have fixed shapes; bonds that do not exist lead from and to a spare atom.
"""

import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

KINDS = 4
"""Of atoms."""


class MessagePassing(keras.layers.Layer):
    """Every atom hears from its neighbours, and changes by what it hears."""

    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.message = keras.layers.Dense(width, activation="relu")
        self.update = keras.layers.Dense(width, activation="tanh")

    def call(self, inputs):
        atoms, bonds = inputs
        molecules, size, width = atoms.shape
        # All atoms of a batch in one row: a molecule's begin after those before it.
        rows = tf.reshape(atoms, [molecules * size, width])
        begin = tf.range(molecules)[:, tf.newaxis] * size
        senders = tf.reshape(bonds[..., 0] + begin, [-1])
        receivers = tf.reshape(bonds[..., 1] + begin, [-1])
        messages = self.message(
            tf.concat([tf.gather(rows, senders), tf.gather(rows, receivers)], axis=-1)
        )
        heard = tf.math.unsorted_segment_sum(messages, receivers, molecules * size)
        rows = self.update(tf.concat([rows, heard], axis=-1))
        return tf.reshape(rows, [molecules, size, -1])


class EnergyModel(keras.Model):
    """Atoms are embedded, send messages for some rounds, and are summed up."""

    def __init__(self, width, rounds, pipelined=False):
        super().__init__()
        self.embedding = keras.layers.Embedding(KINDS + 1, width)
        self.rounds = [MessagePassing(width) for _ in range(rounds)]
        self.pooling = keras.layers.Lambda(lambda atoms: tf.reduce_sum(atoms, axis=1))
        self.energy = keras.layers.Dense(1)
        self.pipelined = pipelined

    def call(self, inputs):
        if not self.pipelined:
            return self.read_out(self.pass_messages(inputs), inputs)
        with keras.ipu.PipelineStage(0):
            x = self.pass_messages(inputs)
        with keras.ipu.PipelineStage(1):
            return self.read_out(x, inputs)

    def pass_messages(self, inputs):
        """The first half of the rounds."""
        x = self.embedding(inputs["atoms"])
        for messages in self.rounds[: len(self.rounds) // 2]:
            x = messages([x, inputs["bonds"]])
        return x

    def read_out(self, x, inputs):
        """The other rounds, and what the atoms sum up to."""
        for messages in self.rounds[len(self.rounds) // 2 :]:
            x = messages([x, inputs["bonds"]])
        return self.energy(self.pooling(x))


def draw_molecules(count, atoms, seed=0):
    """Return kinds of atoms, bonds between them, and energies that follow from both."""
    random = np.random.RandomState(seed)
    kinds = random.randint(0, KINDS, (count, atoms + 1))
    kinds[:, -1] = KINDS
    bonds = random.randint(0, atoms, (count, 2 * atoms, 2))
    missing = random.uniform(size=(count, 2 * atoms)) < 0.4
    bonds[missing] = atoms
    ends = np.take_along_axis(kinds[:, None, :], bonds, axis=2)
    alike = (ends[..., 0] == ends[..., 1]) & ~missing
    energy = alike.sum(axis=1, keepdims=True) - 0.1 * kinds[:, :-1].sum(
        1, keepdims=True
    )
    features = {"atoms": kinds.astype(np.int32), "bonds": bonds.astype(np.int32)}
    return features, energy.astype(np.float32)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--molecules", type=int, default=512)
    parser.add_argument("--atoms", type=int, default=8, help="of a molecule")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16, help="of each replica")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=5e-3)
    parser.add_argument("--ipus", type=int, default=1, choices=(1, 2, 4))
    parser.add_argument(
        "--pipelined", action="store_true", help="two IPUs for each replica"
    )
    parser.add_argument("--accumulate", type=int, default=4, help="batches per update")
    return parser.parse_args(arguments)


def main(arguments=None):
    args = parse_arguments(arguments)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = args.ipus
    config.configure_ipu_system()
    dataset = tf.data.Dataset.from_tensor_slices(
        draw_molecules(args.molecules, args.atoms)
    )
    dataset = dataset.batch(args.batch_size, drop_remainder=True)
    replicas = args.ipus // 2 if args.pipelined else args.ipus
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = EnergyModel(args.width, args.rounds, args.pipelined)
        if args.pipelined:
            model.set_pipelining_options(args.accumulate)
        model.compile(
            optimizer=keras.optimizers.Adam(args.learning_rate),
            loss=keras.losses.Huber(),
            metrics=["mae"],
            steps_per_execution=args.molecules // (args.batch_size * replicas),
        )
        history = model.fit(dataset, epochs=args.epochs, verbose=2)
    return model, history.history


if __name__ == "__main__":
    main()
