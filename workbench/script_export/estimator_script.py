"""Scripts that train with IPUEstimator or IPUPipelineEstimator."""

from __future__ import annotations

from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.topology import topology
from workbench.script_export.layer_code import is_chain
from workbench.script_export.model_functions import pipelined_model, plain_model
from workbench.script_export.own_data import data_imports
from workbench.script_export.parts import (
    Flag,
    config_function,
    constants,
    flags_function,
    head,
    ipu_count,
    load_function,
    order_functions,
    stage_count,
    switch_lines,
    trimmed_code,
)
from workbench.script_export.python_text import call
from workbench.script_export.script_error import ScriptError
from workbench.script_export.training_data import sample_functions

_IMPORTS = (
    "import argparse",
    "",
    "import numpy as np",
    "import tensorflow as tf",
    "from tensorflow import keras",
    "from tensorflow.python import ipu",
)

_PREPARE = """\
def prepare_data(args):
    train, test = load_data()
    samples = args.batch_size * NUM_REPLICAS
    train = trim(train, {update})
    return train, trim(test, {filled})"""

_INPUT = """\
def make_dataset(data, order, batch_size):
    x, y = data
    batches = tf.data.Dataset.from_tensor_slices(order)
    batches = batches.batch(batch_size, drop_remainder=True)
    return batches.map(lambda rows: (tf.gather(x, rows), tf.gather(y, rows)))"""

_MAIN = """\
def main():
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)
    args = parse_arguments()
    train_data, test_data = prepare_data(args)
    samples = len(train_data[0])
    per_epoch = {per_epoch}
    steps_per_epoch = per_epoch // (args.batch_size * NUM_REPLICAS)
    model_dir = args.model_dir

    if not args.test_only:
        loop = args.batches_per_step or steps_per_epoch
        estimator = make_estimator(args, loop, model_dir)
        epochs = range(args.epochs)
        order = [
            epoch_indices(epoch, samples, per_epoch, SEED, one_pass) for epoch in epochs
        ]
        estimator.train(
            lambda: make_dataset(train_data, np.concatenate(order), args.batch_size),
            steps=steps_per_epoch * args.epochs,
        )
        model_dir = estimator.model_dir

    samples = len(test_data[0])
    steps = samples // (args.batch_size * NUM_REPLICAS)
    estimator = make_estimator(args, steps, model_dir)
    results = estimator.evaluate(
        lambda: make_dataset(test_data, np.arange(samples), args.batch_size),
        steps=steps,
    )
    print("Test loss: {{:.6f}}".format(results["loss"]))
    print("Test accuracy: {{:.4f}}".format(results["accuracy"]))
    return results"""


def estimator_script(spec: ExperimentSpec) -> str:
    """Return the script of an experiment that trains with an estimator."""
    pipelined = spec.execution.api == "ipu_pipeline_estimator"
    if spec.data.preparation == "pad":
        raise ScriptError("data.preparation: an estimator's script has no padding")
    if pipelined and not is_chain(spec.model.layers):
        raise ScriptError("model.layers: only a chain can be cut into stage functions")
    load = load_function(spec)
    blocks = [
        _flags(spec),
        load,
        *sample_functions(load),
        _prepare(spec),
        *order_functions(spec),
        _INPUT,
        *(pipelined_model(spec) if pipelined else plain_model(spec)),
        config_function(spec, "make_config", "return config"),
        _make_estimator(pipelined),
        _main(spec),
        'if __name__ == "__main__":\n    main()',
    ]
    imports = [*sorted([_IMPORTS[0], *data_imports(spec)]), *_IMPORTS[1:]]
    start = f"{head(spec, imports)}\n\n{_constants(spec)}"
    return f"{start}\n\n\n" + "\n\n\n".join(blocks) + "\n"


def _constants(spec: ExperimentSpec) -> str:
    values: dict[str, object] = {
        "NUM_IPUS": ipu_count(spec),
        "NUM_REPLICAS": topology(spec).replicas,
        "SEED": spec.experiment.seed,
    }
    if spec.pipeline.stages:
        values["NUM_STAGES"] = stage_count(spec)
    if spec.train.steps_per_epoch:
        values["STEPS_PER_EPOCH"] = spec.train.steps_per_epoch
    return constants(**values)


def _flags(spec: ExperimentSpec) -> str:
    steps = spec.execution.steps_per_execution
    flags = [
        Flag("batch-size", spec.data.batch_size, "samples of a step on a replica"),
        Flag(
            "batches-per-step",
            steps if isinstance(steps, int) else 0,
            "batches of one loop on the IPU; 0 means an epoch's",
        ),
        Flag(
            "gradient-accumulation-count",
            spec.execution.gradient_accumulation,
            "batches per weight update, on each replica",
        ),
        Flag("epochs", spec.train.epochs, "times to go through the data"),
        Flag("learning-rate", spec.train.learning_rate, "step size", "float"),
        Flag("model-dir", None, "directory of the checkpoints", "str"),
    ]
    text = "evaluate the last checkpoint without training"
    return flags_function(switch_lines("test-only", False, text), flags)


def _prepare(spec: ExperimentSpec) -> str:
    filled = "samples * NUM_STAGES" if spec.pipeline.stages else "samples"
    return _PREPARE.format(update=trimmed_code(spec), filled=filled)


def _make_estimator(pipelined: bool) -> str:
    shards = "        num_shards=NUM_IPUS // NUM_REPLICAS,\n" if pipelined else ""
    estimator = (
        "ipu.ipu_pipeline_estimator.IPUPipelineEstimator"
        if pipelined
        else "ipu.ipu_estimator.IPUEstimator"
    )
    made = call(
        estimator,
        ["model_fn", "config=config", "params=params"],
        indent=4,
        before="return ",
    )
    return (
        "def make_estimator(args, iterations_per_loop, model_dir):\n"
        "    loop = ipu.ipu_run_config.IPURunConfig(\n"
        "        iterations_per_loop=iterations_per_loop,\n"
        "        ipu_options=make_config(),\n"
        "        num_replicas=NUM_REPLICAS,\n"
        f"{shards}"
        "    )\n"
        "    config = ipu.ipu_run_config.RunConfig(\n"
        "        ipu_run_config=loop,\n"
        "        model_dir=model_dir,\n"
        "        tf_random_seed=SEED,\n"
        "    )\n"
        "    params = {\n"
        '        "learning_rate": args.learning_rate,\n'
        '        "gradient_accumulation_count": args.gradient_accumulation_count,\n'
        "    }\n"
    ) + "\n".join(made)


def _main(spec: ExperimentSpec) -> str:
    fixed = "STEPS_PER_EPOCH * args.batch_size"
    return _MAIN.format(per_epoch=fixed if spec.train.steps_per_epoch else "samples")
