"""One program for CPU, replicas and pipeline, in three files.

This file trains; `mnist_model.py` has the layers and `mnist_data.py` the samples.
Without switches it is plain Keras on the CPU.
"""

import argparse
import contextlib

import mnist_data
from mnist_model import NUM_STAGES, build_model, build_pipeline
from tensorflow.python import ipu

NUM_IPUS = 2


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--use-ipu",
        action="store_true",
        help=f"train on {NUM_IPUS} IPUs, each with the whole model",
    )
    parser.add_argument(
        "--pipelining",
        action="store_true",
        help=f"with --use-ipu: one model, in {NUM_STAGES} stages",
    )
    parser.add_argument(
        "--gradient-accumulation-count",
        type=int,
        default=8,
        help="with --pipelining: batches per weight update, a multiple of 4",
    )
    parser.add_argument("--batch-size", type=int, default=80, help="of each IPU")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--samples", type=int, default=0, help="0 means all")
    args = parser.parse_args(arguments)
    if args.pipelining and not args.use_ipu:
        parser.error("--pipelining needs --use-ipu")
    return args


def select_ipus():
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = NUM_IPUS
    # Attach when the first program starts, not already here.
    config.device_connection.type = ipu.config.DeviceConnectionType.ON_DEMAND
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy()


def make_model(args):
    if not args.pipelining:
        return build_model()
    model = build_pipeline()
    model.set_pipelining_options(
        gradient_accumulation_steps_per_replica=args.gradient_accumulation_count
    )
    return model


def count_batches(args, data, multiple):
    """Return how many whole batches there are, rounded down to a multiple."""
    batches = len(data[0]) // args.batch_size
    return batches - batches % multiple


def main(arguments=None):
    args = parse_arguments(arguments)
    train, test = mnist_data.load(args.samples)
    replicas = NUM_IPUS if args.use_ipu and not args.pipelining else 1
    update = args.gradient_accumulation_count if args.pipelining else replicas
    # A pipeline that only runs forwards must be filled as well: once per stage.
    test_multiple = NUM_STAGES if args.pipelining else replicas

    with select_ipus().scope() if args.use_ipu else contextlib.nullcontext():
        model = make_model(args)

        def compile_for(batches):
            model.compile(
                optimizer="sgd",
                loss="categorical_crossentropy",
                metrics=["accuracy"],
                # The CPU has nothing to gain from a loop of its own.
                steps_per_execution=batches // replicas if args.use_ipu else 1,
            )

        batches = count_batches(args, train, update)
        compile_for(batches)
        history = model.fit(
            mnist_data.repeat(train, args.batch_size),
            steps_per_epoch=batches,
            epochs=args.epochs,
            shuffle=False,  # What repeats has its order already.
            verbose=2,
        )
        batches = count_batches(args, test, test_multiple)
        compile_for(batches)
        loss, accuracy = model.evaluate(
            mnist_data.repeat(test, args.batch_size), steps=batches, verbose=0
        )
    print(f"Test loss: {loss:.4f}")
    print(f"Test accuracy: {accuracy:.4f}")
    return history.history["loss"], loss, accuracy


if __name__ == "__main__":
    main()
