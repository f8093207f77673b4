"""From plain Keras to a pipeline on two IPUs, one step at a time.

Each function that STEPS names is a step. All of them train the same CNN on MNIST, and
each differs little from the one before it.
"""

import argparse

import mnist_data
from mnist_model import NUM_STAGES, build_model, build_pipeline
from tensorflow.python import ipu


def on_cpu(args):
    """Plain Keras. The last batch may be smaller than the others."""
    train, test = mnist_data.load(args.samples)
    return learn(build_model(), train, test, args)


def on_one_ipu(args):
    """The same calls inside an IPUStrategy's scope, on whole batches."""
    train, test = load_whole(args, args.batch_size, args.batch_size)
    with select_ipus(1).scope():
        return learn(build_model(), train, test, args)


def whole_epochs(args):
    """The IPU loops over all batches of an epoch, and the host starts it once."""
    train, test = load_whole(args, args.batch_size, args.batch_size)
    with select_ipus(1).scope():
        return learn(build_model(), train, test, args, args.batch_size)


def replicated(args):
    """Two IPUs are more than the model needs, so each gets a copy of it.

    A step takes a batch for every copy. The copies add up their gradients and stay
    equal.
    """
    per_step = args.batch_size * 2
    train, test = load_whole(args, per_step, per_step)
    with select_ipus(2).scope():
        model = build_model()
        # Otherwise loss and accuracy are those of the last copy's share of the data.
        model.set_replication_options(replicated_metric_reduction_method="mean")
        return learn(model, train, test, args, per_step)


def pipelined(args):
    """Half of the layers on each of two IPUs, which work on different batches.

    Weights change after every so many batches, by the sum of their gradients.
    """
    count = args.gradient_accumulation_count
    train, test = load_whole(
        args, args.batch_size * count, args.batch_size * NUM_STAGES
    )
    with select_ipus(NUM_STAGES).scope():
        model = build_pipeline()
        schedules = ipu.ops.pipelining_ops.PipelineSchedule
        model.set_pipelining_options(
            pipeline_schedule=schedules[args.schedule],
            gradient_accumulation_steps_per_replica=count,
        )
        return learn(model, train, test, args, args.batch_size)


STEPS = {
    "cpu": on_cpu,
    "ipu": on_one_ipu,
    "faster": whole_epochs,
    "replicated": replicated,
    "pipelined": pipelined,
}


def load_whole(args, train_multiple, test_multiple):
    train, test = mnist_data.load(args.samples)
    return mnist_data.trim(train, train_multiple), mnist_data.trim(test, test_multiple)


def select_ipus(count):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = count
    config.configure_ipu_system()
    return ipu.ipu_strategy.IPUStrategy()


def learn(model, train, test, args, samples_per_step=0):
    """Train and test; one execution takes one batch or, given a step's size, all."""

    def compile_for(data):
        steps = len(data[0]) // samples_per_step if samples_per_step else 1
        model.compile(
            optimizer="sgd",
            loss="categorical_crossentropy",
            metrics=["accuracy"],
            steps_per_execution=steps,
        )

    compile_for(train)
    history = model.fit(*train, args.batch_size, epochs=args.epochs, verbose=2)
    compile_for(test)
    loss, accuracy = model.evaluate(*test, args.batch_size, verbose=0)
    print(f"Test loss: {loss:.4f}")
    print(f"Test accuracy: {accuracy:.4f}")
    return history.history["loss"], loss, accuracy


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "steps", nargs="*", metavar="STEP", help=f"{', '.join(STEPS)}; all by default"
    )
    parser.add_argument("--samples", type=int, default=0, help="0 means all")
    parser.add_argument("--batch-size", type=int, default=64, help="of each IPU")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument(
        "--schedule",
        default="Grouped",
        choices=("Grouped", "Interleaved", "Sequential"),
        help="which stage of the pipeline works on which batch, and when",
    )
    parser.add_argument(
        "--gradient-accumulation-count",
        type=int,
        default=8,
        help="batches per weight update of the pipeline; Grouped wants multiples of 4",
    )
    args = parser.parse_args(arguments)
    unknown = set(args.steps) - set(STEPS)
    if unknown:
        parser.error(f"STEP is one of {', '.join(STEPS)}, not {', '.join(unknown)}")
    return args


def main(arguments=None):
    args = parse_arguments(arguments)
    results = {}
    for name in args.steps or STEPS:
        step = STEPS[name]
        print(f"\n{name}: {step.__doc__.splitlines()[0]}")
        results[name] = step(args)
    return results


if __name__ == "__main__":
    main()
