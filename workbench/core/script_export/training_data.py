"""How scripts that train with Keras prepare their data and feed them."""

from __future__ import annotations

from workbench.core.experiment.experiment_spec import ExperimentSpec
from workbench.core.script_export.parts import TRIM
from workbench.core.script_export.poprun_parts import SHARED_ORDER, shared_out
from workbench.core.script_export.source_data import (
    TRIM_ALL,
    has_many,
    train_all_function,
)

_PAD = """\
def pad(arrays, multiple):
    # What is added weighs 0, so that it counts neither for loss nor metrics.
    x, y = arrays
    missing = -len(x) % multiple
    return tuple(
        np.pad(values, [(0, missing)] + [(0, 0)] * (values.ndim - 1))
        for values in (x, y, np.ones(len(x), "float32"))
    )"""


def prepare_functions(spec: ExperimentSpec) -> list[str]:
    """Return `prepare_data`, which gives whole batches, and what it calls."""
    preparation = spec.data.preparation
    change = "pad" if preparation == "pad" else "trim"
    update = "samples * args.gradient_accumulation_count"
    if preparation == "repeat":
        update = "args.batch_size"
    filled = "samples * count_stages(args)" if spec.pipeline.stages else "samples"
    lines = ["def prepare_data(args):", "    train, test = load_data()"]
    if preparation == "none":
        lines += ["    if not args.use_ipu:", "        return train, test"]
    lines += [
        "    samples = args.batch_size * count_replicas(args)",
        f"    train = {change}(train, {update})",
        f"    return train, {change}(test, {filled})",
    ]
    trim = TRIM_ALL if has_many(spec) else TRIM
    return [_PAD if change == "pad" else trim, "\n".join(lines)]


def train_function(spec: ExperimentSpec) -> str:
    """Return `train`: an epoch per call of `fit`, each in its own order."""
    if has_many(spec):
        return train_all_function(spec)
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
            *([SHARED_ORDER] if shared_out(spec) else []),
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
