"""How scripts that train with Keras prepare their data and feed them."""

from __future__ import annotations

from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.script_export.parts import trimmed_code
from workbench.script_export.poprun_parts import SHARED_ORDER, shared_out
from workbench.script_export.python_text import call, printed
from workbench.script_export.source_data import has_many
from workbench.training.samples import add_zeros, count_samples, pad, take, trim

_GATHER = """\
def gather(tensors, order):
    def gathered(values):
        return tf.gather(values, order)

    return tf.nest.map_structure(gathered, tensors)


"""


def sample_functions(load: str, *, pads: bool = False) -> list[str]:
    """Return what is called by `load_data`, whose source is given, and to fill batches.

    Args:
        load: Source of `load_data` and what belongs to it.
        pads: Whether the last batch is filled up, and not left out.
    """
    takes = not pads or "share_out(" in load
    functions = [
        count_samples,
        *[take] * takes,
        *([add_zeros, pad] if pads else [trim]),
    ]
    return [printed(function) for function in functions]


def prepare_functions(spec: ExperimentSpec, load: str) -> list[str]:
    """Return `prepare_data`, which gives whole batches, and what it calls."""
    preparation = spec.data.preparation
    change = "pad" if preparation == "pad" else "trim"
    filled = "samples * count_stages(args)" if spec.pipeline.stages else "samples"
    lines = ["def prepare_data(args):", "    train, test = load_data()"]
    if preparation == "none":
        lines += ["    if not args.use_ipu:", "        return train, test"]
    lines += [
        "    samples = args.batch_size * count_replicas(args)",
        f"    train = {change}(train, {trimmed_code(spec)})",
        f"    return train, {change}(test, {filled})",
    ]
    pads = change == "pad"
    return [*sample_functions(load, pads=pads), "\n".join(lines)]


def train_function(spec: ExperimentSpec) -> str:
    """Return `train`: an epoch per call of `fit`, each in its own order."""
    if has_many(spec):
        made = [
            "    tensors = tf.nest.map_structure(tf.convert_to_tensor, data)",
            "    samples = count_samples(data)",
        ]
        return _GATHER + _train(spec, made, "samples", ["*gather(tensors, order)"])
    names = ["x", "y", "weight"] if spec.data.preparation == "pad" else ["x", "y"]
    listed = ", ".join(names)
    gathered = [f"tf.gather({name}, order)" for name in names]
    if len(gathered) > 2:
        gathered[2] = f"sample_weight={gathered[2]}"
    made = [f"    {listed} = (tf.convert_to_tensor(values) for values in data)"]
    return _train(spec, made, "len(x)", gathered)


def _train(
    spec: ExperimentSpec, made: list[str], samples: str, batches: list[str]
) -> str:
    steps = spec.train.steps_per_epoch
    per_epoch = "STEPS_PER_EPOCH * args.batch_size" if steps else samples
    return "\n".join(
        [
            "def train(model, data, args):",
            *made,
            "    losses = []",
            "    for epoch in range(args.epochs):",
            *call(
                "epoch_indices",
                ["epoch", samples, per_epoch, "SEED", "one_pass"],
                indent=8,
                before="order = ",
            ),
            *(SHARED_ORDER if shared_out(spec) else []),
            "        history = model.fit(",
            *(f"            {argument}," for argument in batches),
            "            batch_size=args.batch_size,",
            "            initial_epoch=epoch,",
            "            epochs=epoch + 1,",
            "            shuffle=False,",
            "        )",
            '        losses += history.history["loss"]',
            "    return losses",
        ]
    )
