"""Three ways to give an IPU whole batches: trim, repeat or pad the data.

60,000 images are 937.5 batches of 64, and half a batch has another shape.
"""

import argparse

import mnist_data
from mnist_model import build_model
from tensorflow.python import ipu


def trimmed(model, train, args):
    """Half a batch is left out: simple, and its samples are never seen."""
    images, classes = mnist_data.trim(train, args.batch_size)
    steps = len(images) // args.batch_size
    compile_for(model, steps, metrics=["accuracy"])
    return model.fit(
        images, classes, batch_size=args.batch_size, epochs=args.epochs, verbose=2
    )


def repeated(model, train, args):
    """The next pass fills the last batch: every sample is seen, epochs overlap."""
    steps = rounded_up(len(train[0]), args.batch_size)
    compile_for(model, steps, metrics=["accuracy"])
    return model.fit(
        mnist_data.repeat(train, args.batch_size),
        steps_per_epoch=steps,
        epochs=args.epochs,
        verbose=2,
    )


def padded(model, train, args):
    """Zeros of weight 0 fill the last batch: exact epochs for a little idle work.

    They change neither gradients' direction nor weighted metrics, but the loss is
    still a mean over the whole batch, so that batch counts for less.
    """
    images, classes, weights = mnist_data.pad(train, args.batch_size)
    steps = len(images) // args.batch_size
    compile_for(model, steps, weighted_metrics=["accuracy"])
    return model.fit(
        images,
        classes,
        sample_weight=weights,
        batch_size=args.batch_size,
        epochs=args.epochs,
        verbose=2,
    )


WAYS = {"trim": trimmed, "repeat": repeated, "pad": padded}


def rounded_up(samples, batch_size):
    return -(-samples // batch_size)


def compile_for(model, steps, **metrics):
    model.compile(
        optimizer="sgd",
        loss="categorical_crossentropy",
        steps_per_execution=steps,
        **metrics,
    )


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--samples", type=int, default=0, help="0 means all")
    args = parser.parse_args(arguments)

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    train, _ = mnist_data.load(args.samples)
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = build_model()
        history = WAYS[args.way](model, train, args)
    return history.history


if __name__ == "__main__":
    main()
