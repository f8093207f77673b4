"""Scripts that train with Keras: on the CPU, or under an IPUStrategy."""

from __future__ import annotations

from workbench.data.model_tensors import compared_outputs, has_accuracy
from workbench.data.sample_counts import is_made_up
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.losses import Loss
from workbench.experiment.topology import topology
from workbench.script_export.layer_code import (
    functional_lines,
    is_chain,
    sequential_lines,
)
from workbench.script_export.model_source import source_functions, source_imports
from workbench.script_export.own_data import data_imports
from workbench.script_export.parts import (
    Flag,
    classes,
    config_function,
    constants,
    flags_function,
    head,
    ipu_count,
    layers_of,
    load_function,
    optimizer_code,
    order_functions,
    pipeline_arguments,
    stage_count,
    switch_lines,
)
from workbench.script_export.poprun_parts import IMPORTS as POPDIST
from workbench.script_export.poprun_parts import (
    STRATEGY_IMPORT,
    count_function,
    shared_out,
)
from workbench.script_export.python_text import call, literal, printed
from workbench.script_export.script_error import ScriptError
from workbench.script_export.source_data import for_outputs, has_many
from workbench.script_export.training_data import prepare_functions, train_function
from workbench.training.samples import own_share

_IMPORTS = (
    "import argparse",
    "import random",
    "",
    "import numpy as np",
    "import tensorflow as tf",
    "from tensorflow import keras",
    "from tensorflow.python import ipu",
)

_REPLICAS = """\
def count_stages(args):
    return NUM_STAGES if args.pipelining else 1


def count_replicas(args):
    if not args.use_ipu:
        return 1
    return NUM_IPUS // (IPUS_PER_REPLICA if args.pipelining else 1)"""

_REPLICAS_WITHOUT_PIPELINE = """\
def count_replicas(args):
    return NUM_IPUS if args.use_ipu else 1"""

_SEED = """\
def set_seeds():
    random.seed(SEED)
    np.random.seed(SEED)
    tf.random.set_seed(SEED)"""


def keras_script(spec: ExperimentSpec, *, sequential: bool = False) -> str:
    """Return the script of an experiment that trains with Keras."""
    if has_many(spec) and spec.data.preparation == "pad":
        text = "data.preparation: pad is written for one input and one output only"
        raise ScriptError(f"{text}; use trim")
    if spec.model.source:
        if sequential:
            text = "--sequential: the model comes from model.source as it is"
            raise ScriptError(text)
    else:
        # PopDistStrategy has no scope that makes a layer part of a stage.
        sequential = sequential or bool(shared_out(spec) and spec.pipeline.stages)
        if sequential and not is_chain(spec.model.layers):
            raise ScriptError("model.layers: only a chain of layers can be Sequential")
    load = load_function(spec)
    blocks = [
        head(spec, _imports(spec)),
        _constants(spec),
        _flags(spec),
        _count_functions(spec),
        load,
        *prepare_functions(spec, load),
        *order_functions(spec),
        printed(own_share) if shared_out(spec) else "",
        *_model_functions(spec, sequential=sequential),
        config_function(spec, "configure_ipus", "config.configure_ipu_system()"),
        _SEED,
        _options_function(spec, sequential=sequential),
        _compile_function(spec),
        train_function(spec),
        _main(spec, sequential=sequential),
        'if __name__ == "__main__":\n    main()',
    ]
    first, constant, *rest = [block for block in blocks if block]
    return f"{first}\n\n{constant}\n\n\n" + "\n\n\n".join(rest) + "\n"


def _imports(spec: ExperimentSpec) -> list[str]:
    needed = {*_IMPORTS[:2], *data_imports(spec), *source_imports(spec)}
    if not shared_out(spec):
        return [*sorted(needed), *_IMPORTS[2:]]
    others = [_IMPORTS[3], *POPDIST, *_IMPORTS[4:], STRATEGY_IMPORT]
    return [*sorted(needed), "", *others]


def _count_functions(spec: ExperimentSpec) -> str:
    if shared_out(spec):
        return count_function(spec)
    return _REPLICAS if spec.pipeline.stages else _REPLICAS_WITHOUT_PIPELINE


def _constants(spec: ExperimentSpec) -> str:
    values: dict[str, object] = {
        "NUM_CLASSES": classes(spec),
        "NUM_IPUS": ipu_count(spec),
        "SEED": spec.experiment.seed,
    }
    if is_made_up(spec) or spec.data.read is not None:
        del values["NUM_CLASSES"]
    if spec.pipeline.stages:
        values["NUM_STAGES"] = stage_count(spec)
        values["IPUS_PER_REPLICA"] = topology(spec).ipus_per_replica
    if spec.train.steps_per_epoch:
        values["STEPS_PER_EPOCH"] = spec.train.steps_per_epoch
    return constants(**values)


def _flags(spec: ExperimentSpec) -> str:
    on_ipu = spec.execution.api != "cpu"
    switches = switch_lines("use-ipu", on_ipu, "train on IPUs")
    end = [
        "    if not args.use_ipu:",
        "        args.gradient_accumulation_count = 1",
    ]
    if spec.pipeline.stages:
        switches += switch_lines("pipelining", True, "cut the model into stages")
        end.append("        args.pipelining = False")
    flags = [
        Flag(
            "gradient-accumulation-count",
            spec.execution.gradient_accumulation,
            "batches per weight update, on each replica",
        ),
        Flag("batch-size", spec.data.batch_size, "samples of a step on a replica"),
        Flag("epochs", spec.train.epochs, "times to go through the data"),
        Flag("learning-rate", spec.train.learning_rate, "step size", "float"),
    ]
    return flags_function(switches, flags, end)


def _model_functions(spec: ExperimentSpec, *, sequential: bool) -> list[str]:
    if spec.model.source:
        return source_functions(spec)
    layers = layers_of(spec)
    if sequential:
        return ["\n".join(["def build_model():", *sequential_lines(layers)])]
    functions = ["\n".join(["def build_model():", *functional_lines(layers)])]
    if spec.pipeline.stages:
        lines = functional_lines(layers, spec.pipeline.stages)
        functions.append("\n".join(["def build_pipeline():", *lines]))
    return functions


def _options_function(spec: ExperimentSpec, *, sequential: bool) -> str:
    """Return `set_ipu_options`, which says how the model is spread and accumulated."""
    execution, pipeline = spec.execution, spec.pipeline
    reduction = literal(execution.accumulation_reduction)
    count = "gradient_accumulation_steps_per_replica=args.gradient_accumulation_count"
    accumulate = [
        "    model.set_gradient_accumulation_options(",
        f"        {count},",
        f"        gradient_accumulation_reduction_method={reduction},",
        "    )",
    ]
    lines = ["def set_ipu_options(model, args):"]
    if execution.metric_reduction != "none":
        method = literal(execution.metric_reduction)
        lines.append(
            "    model.set_replication_options("
            f"replicated_metric_reduction_method={method})"
        )
    if not pipeline.stages:
        return "\n".join([*lines, *accumulate])
    arguments = [
        count,
        f"gradient_accumulation_reduction_method={reduction}",
        *pipeline_arguments(pipeline),
    ]
    assign = []
    if sequential:
        stages = ", ".join(str(stage) for stage in pipeline.stages)
        assign = [f"        model.set_pipeline_stage_assignment([{stages}])"]
    elif spec.model.source:
        assign = ["        assign_stages(model, STAGE_OF_LAYER)"]
    return "\n".join(
        [
            *lines,
            "    if args.pipelining:",
            *assign,
            "        model.set_pipelining_options(",
            *(f"            {argument}," for argument in arguments),
            "        )",
            "    else:",
            *(f"    {line}" for line in accumulate),
        ]
    )


def _compile_function(spec: ExperimentSpec) -> str:
    metrics = "weighted_metrics" if spec.data.preparation == "pad" else "metrics"
    losses = [loss for _, loss in compared_outputs(spec)]
    scores = [_metrics_code(spec, loss) for loss in losses]
    return f"""\
def compile_model(model, args, steps_per_execution):
    model.compile(
        optimizer={optimizer_code(spec, "args.learning_rate")},
        loss={for_outputs(spec, [*map(_loss_code, losses)], indent=8)},
        {metrics}={for_outputs(spec, scores, indent=8)},
        steps_per_execution=steps_per_execution,
    )"""


def _loss_code(loss: Loss) -> str:
    if not loss.from_logits:
        return literal(loss.name)
    return f"keras.losses.{loss.class_name}(from_logits=True)"


def _metrics_code(spec: ExperimentSpec, loss: Loss) -> str:
    if not has_accuracy(spec, loss):
        return "[]"
    if loss.labels != "binary":
        return '["accuracy"]'
    return f'[keras.metrics.BinaryAccuracy("accuracy", threshold={loss.threshold})]'


def _main(spec: ExperimentSpec, *, sequential: bool) -> str:
    model = "build_model()"
    strategy = "ipu.ipu_strategy.IPUStrategy()"
    strategy = "PopDistStrategy()" if shared_out(spec) else strategy
    if spec.pipeline.stages and not sequential and not spec.model.source:
        model = f"build_pipeline() if args.pipelining else {model}"
    steps = spec.execution.steps_per_execution
    whole = steps == "epoch"
    per_epoch = (
        "STEPS_PER_EPOCH"
        if spec.train.steps_per_epoch
        else "count_samples(train_data) // args.batch_size"
    )
    test_data = "test_data" if spec.train.evaluate else "_"
    lines = [
        "def main():",
        "    args = parse_arguments()",
        f"    train_data, {test_data} = prepare_data(args)",
        "    if args.use_ipu:",
        *(["        popdist.init()"] if shared_out(spec) else []),
        "        configure_ipus()",
        f"        strategy = {strategy}",
        "    else:",
        "        strategy = tf.distribute.get_strategy()",
        "",
        "    with strategy.scope():",
        "        set_seeds()",
        f"        model = {model}",
        "        if args.use_ipu:",
        "            set_ipu_options(model, args)",
    ]
    if whole:
        lines.append(f"        steps = {per_epoch} // count_replicas(args)")
    lines += [
        f"        compile_model(model, args, {'steps' if whole else steps})",
        "        model.summary()",
        "        losses = train(model, train_data, args)",
    ]
    if spec.train.evaluate:
        lines += ["", '        print("\\nOn the test data:")']
        if steps != 1:
            batches = "count_samples(test_data) // samples"
            lines += [
                "        samples = args.batch_size * count_replicas(args)",
                f"        compile_model(model, args, {batches})",
            ]
        arguments = ["*test_data", "batch_size=args.batch_size"]
        if spec.data.preparation == "pad":
            lines.append("        x, y, weight = test_data")
            arguments = ["x", "y", "sample_weight=weight", arguments[-1]]
        lines += call("model.evaluate", arguments, indent=8)
    return "\n".join([*lines, "    return losses"])
