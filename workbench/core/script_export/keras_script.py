"""Scripts that train with Keras: on the CPU, or under an IPUStrategy."""

from __future__ import annotations

from textwrap import dedent

from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.script_export.keras_data import (
    MAKE_DIVISIBLE,
    prepare_function,
    train_function,
)
from workbench.core.script_export.layer_code import (
    functional_lines,
    is_chain,
    sequential_lines,
)
from workbench.core.script_export.parts import (
    Flag,
    ScriptError,
    classes,
    config_function,
    constants,
    flags_function,
    head,
    ipu_count,
    layers_of,
    load_function,
    optimizer_code,
    order_function,
    stage_count,
    switch_lines,
)
from workbench.core.script_export.python_text import call, literal
from workbench.core.topology import topology

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
    if sequential and not is_chain(spec.model.layers):
        raise ScriptError("model.layers: only a chain of layers can be Sequential")
    blocks = [
        head(spec, _IMPORTS),
        _constants(spec),
        _flags(spec),
        _REPLICAS if spec.pipeline.stages else _REPLICAS_WITHOUT_PIPELINE,
        MAKE_DIVISIBLE,
        load_function(spec),
        prepare_function(spec),
        order_function(spec),
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


def _constants(spec: ExperimentSpec) -> str:
    values: dict[str, object] = {
        "NUM_CLASSES": classes(spec),
        "NUM_IPUS": ipu_count(spec),
        "SEED": spec.experiment.seed,
    }
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
    layers = layers_of(spec)
    if sequential:
        return ["\n".join(["def build_model():", *sequential_lines(layers)])]
    functions = ["\n".join(["def model_fn():", *functional_lines(layers)])]
    if spec.pipeline.stages:
        lines = functional_lines(layers, spec.pipeline.stages)
        functions.append("\n".join(["def model_fn_pipelined():", *lines]))
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
    ops = "ipu.ops.pipelining_ops"
    arguments = [
        count,
        f"gradient_accumulation_reduction_method={reduction}",
        f"pipeline_schedule={ops}.PipelineSchedule.{pipeline.schedule}",
    ]
    if pipeline.device_mapping:
        mapping = ", ".join(str(ipu) for ipu in pipeline.device_mapping)
        arguments.append(f"device_mapping=[{mapping}]")
    if pipeline.recomputation != "Auto":
        mode = f"{ops}.RecomputationMode.{pipeline.recomputation}"
        arguments.append(f"recomputation_mode={mode}")
    if pipeline.offload_activations:
        arguments.append("offload_activations=True")
    assign = []
    if sequential:
        stages = ", ".join(str(stage) for stage in pipeline.stages)
        assign = [f"        model.set_pipeline_stage_assignment([{stages}])"]
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
    return dedent(f"""\
        def compile_model(model, args, steps_per_execution):
            model.compile(
                optimizer={optimizer_code(spec, "args.learning_rate")},
                loss={literal(spec.train.loss)},
                {metrics}=["accuracy"],
                steps_per_execution=steps_per_execution,
            )""")


def _main(spec: ExperimentSpec, *, sequential: bool) -> str:
    if sequential:
        model = "build_model()"
    elif spec.pipeline.stages:
        model = "keras.Model(*(model_fn_pipelined if args.pipelining else model_fn)())"
    else:
        model = "keras.Model(*model_fn())"
    steps = spec.execution.steps_per_execution
    whole = steps == "epoch"
    per_epoch = (
        "STEPS_PER_EPOCH"
        if spec.train.steps_per_epoch
        else "len(train_data[0]) // args.batch_size"
    )
    test_data = "test_data" if spec.train.evaluate else "_"
    lines = [
        "def main():",
        "    args = parse_arguments()",
        f"    train_data, {test_data} = prepare_data(args)",
        "    if args.use_ipu:",
        "        configure_ipus()",
        "        strategy = ipu.ipu_strategy.IPUStrategy()",
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
        "",
        '        print("\\nTraining")',
        "        losses = train(model, train_data, args)",
    ]
    if spec.train.evaluate:
        lines += ["", '        print("\\nEvaluation")']
        if steps != 1:
            lines += [
                "        samples = args.batch_size * count_replicas(args)",
                "        compile_model(model, args, len(test_data[0]) // samples)",
            ]
        arguments = ["*test_data", "batch_size=args.batch_size"]
        if spec.data.preparation == "pad":
            lines.append("        x, y, weight = test_data")
            arguments = ["x", "y", "sample_weight=weight", arguments[-1]]
        lines += call("model.evaluate", arguments, indent=8)
    return "\n".join([*lines, "    return losses"])
