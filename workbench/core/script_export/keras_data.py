"""How scripts that train with Keras prepare their data and feed them."""

from __future__ import annotations

from textwrap import dedent

from workbench.core.experiment_spec import ExperimentSpec

MAKE_DIVISIBLE = """\
def make_divisible(number, divisor):
    return number - number % divisor"""


def prepare_function(spec: ExperimentSpec) -> str:
    """Return `prepare_data`: whole batches, or none of the tail, or padding."""
    count = "args.gradient_accumulation_count"
    stages = " * count_stages(args)" if spec.pipeline.stages else ""
    preparation = spec.data.preparation
    if preparation == "pad":
        return dedent(f"""\
            def pad(values, divisor):
                missing = -len(values) % divisor
                return np.concatenate([values, np.zeros_like(values[:missing])])


            def prepare_data(args):
                (x_train, y_train), (x_test, y_test) = load_data()
                samples = args.batch_size * count_replicas(args)
                divisor = samples * {count}
                # Padding has weight 0, so that it counts neither for loss nor metrics.
                train = (x_train, y_train, np.ones(len(x_train), "float32"))
                test = (x_test, y_test, np.ones(len(x_test), "float32"))
                train = tuple(pad(values, divisor) for values in train)
                test = tuple(pad(values, samples{stages}) for values in test)
                return train, test""")
    divisor = "args.batch_size" if preparation == "repeat" else f"samples * {count}"
    lines = [
        "def prepare_data(args):",
        "    (x_train, y_train), (x_test, y_test) = load_data()",
    ]
    if preparation == "none":
        lines += [
            "    if not args.use_ipu:",
            "        return (x_train, y_train), (x_test, y_test)",
        ]
    return "\n".join(
        [
            *lines,
            "    samples = args.batch_size * count_replicas(args)",
            f"    length = make_divisible(len(x_train), {divisor})",
            "    x_train, y_train = x_train[:length], y_train[:length]",
            f"    length = make_divisible(len(x_test), samples{stages})",
            "    x_test, y_test = x_test[:length], y_test[:length]",
            "    return (x_train, y_train), (x_test, y_test)",
        ]
    )


def train_function(spec: ExperimentSpec) -> str:
    """Return `train`: an epoch per call of `fit`, each in its own order."""
    names = ["x", "y", "weight"] if spec.data.preparation == "pad" else ["x", "y"]
    per_epoch = (
        "STEPS_PER_EPOCH * args.batch_size" if spec.train.steps_per_epoch else "len(x)"
    )
    listed = ", ".join(names)
    gathered = [f"tf.gather({name}, order)" for name in names]
    if len(gathered) > 2:
        gathered[2] = f"sample_weight={gathered[2]}"
    return "\n".join(
        [
            "def train(model, data, args):",
            f"    {listed} = (tf.convert_to_tensor(values) for values in data)",
            "    losses = []",
            "    for epoch in range(args.epochs):",
            f"        order = epoch_indices(epoch, len(x), {per_epoch})",
            "        history = model.fit(",
            *(f"            {argument}," for argument in gathered),
            "            batch_size=args.batch_size,",
            "            initial_epoch=epoch,",
            "            epochs=epoch + 1,",
            "            shuffle=False,",
            "        )",
            '        losses += history.history["loss"]',
            "    return losses",
        ]
    )
