"""One model, trained by several processes together under poprun.

    poprun --num-instances 2 --num-replicas 4 python examples/popdist_training.py

Every instance runs this whole file, on its own share of MNIST. Without poprun the same
file trains with one instance and one replica.
"""

import argparse

import mnist_data
import popdist
import popdist.tensorflow
import tensorflow as tf
from mnist_model import build_model
from tensorflow.python import ipu
from tensorflow.python.ipu.distributed import popdist_strategy


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=32, help="of each replica")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=4096, help="of all instances")
    parser.add_argument("--save", default="popdist_mnist.keras", metavar="FILE")
    return parser.parse_args(arguments)


def own_share(args):
    """Return the data set of this instance, and how many batches it has."""
    (x, y), _ = mnist_data.load(args.samples)
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    dataset = dataset.shard(popdist.getNumInstances(), popdist.getInstanceIndex())
    dataset = dataset.shuffle(1024, seed=1).batch(args.batch_size, drop_remainder=True)
    # All instances must make the same number of steps, and all replicas too.
    batches = len(x) // popdist.getNumInstances() // args.batch_size
    steps = batches // popdist.getNumLocalReplicas()
    return dataset.take(steps * popdist.getNumLocalReplicas()), steps


def main(arguments=None):
    args = parse_arguments(arguments)
    popdist.init()
    config = ipu.config.IPUConfig()
    popdist.tensorflow.set_ipu_config(config, ipus_per_replica=1)
    config.configure_ipu_system()

    dataset, steps = own_share(args)
    strategy = popdist_strategy.PopDistStrategy()
    first = popdist.getInstanceIndex() == 0
    with strategy.scope():
        model = build_model()
        model.compile(
            optimizer="adam",
            loss="categorical_crossentropy",
            metrics=["accuracy"],
            steps_per_execution=steps,
        )
        # Callbacks that look at results belong to the first instance alone.
        model.fit(dataset, epochs=args.epochs, verbose=2 if first else 0)

    check = sum(float(tf.reduce_sum(weight)) for weight in model.trainable_variables)
    print(f"weights sum up to {check:.6f}")
    if first:
        model.save(args.save)
        print(f"saved {args.save}")


if __name__ == "__main__":
    main()
