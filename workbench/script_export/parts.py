"""Parts that the exported scripts share: head, data, order of samples, devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

from ipu_runtime.plan.config.config_enums import ENUM_OF_FIELD
from ipu_runtime.plan.model.model_spec import LayerSpec
from ipu_runtime.plan.placements import PLACEMENTS
from workbench.data.dataset_facts import (
    NAMED,
    DatasetFacts,
    data_facts,
    takes_bytes,
)
from workbench.data.model_tensors import compared_outputs, meets
from workbench.data.sample_counts import is_made_up, trimmed_steps
from workbench.experiment.experiment_spec import ExperimentSpec, Pipeline
from workbench.experiment.resolved_model import resolved
from workbench.experiment.topology import topology
from workbench.script_export.own_data import given_function, read_lines
from workbench.script_export.poprun_parts import command, select_lines, shared_out
from workbench.script_export.python_text import (
    WIDTH,
    call,
    keywords,
    literal,
    printed,
)
from workbench.script_export.script_error import ScriptError
from workbench.script_export.source_data import synthetic_function
from workbench.training.optimizers import OPTIMIZERS
from workbench.training.samples import (
    epoch_of_many_passes,
    epoch_of_one_pass,
    plain_pass,
    shuffled_pass,
)

_RUN_WITH = "ipu-workbench exec"


@dataclass(frozen=True, slots=True)
class Flag:
    """A command line flag of the script."""

    name: str
    default: object
    help: str
    kind: str = "int"


def head(spec: ExperimentSpec, imports: Sequence[str]) -> str:
    """Return the docstring and the imports."""
    title = spec.experiment.title.rstrip(".").replace("\\", "").replace('"', "'")
    origin = spec.experiment.name.replace("\\", "").replace('"', "'")
    text = (
        f"Exported by ipu-workbench from {origin}. It needs Graphcore's TensorFlow 2 "
        f"and IPUs; without them, run it with: {_RUN_WITH} SCRIPT"
    )
    lines = [*wrap(text, WIDTH)]
    if shared_out(spec):
        lines += ["", "Several processes train together when it is started with:"]
        lines += [f"    {command(spec)}"]
    docstring = "\n".join(['"""' + f"{title}.", "", *lines, '"""'])
    return "\n".join([docstring, "", *imports])


def constants(**values: object) -> str:
    """Return assignments of the script's constants."""
    return "\n".join(f"{name} = {literal(value)}" for name, value in values.items())


def flags_function(
    switches: Sequence[str], flags: Sequence[Flag], end: Sequence[str] = ()
) -> str:
    """Return `parse_arguments`; switches and what follows the flags are source."""
    lines = [
        "def parse_arguments():",
        "    parser = argparse.ArgumentParser(description=__doc__)",
        *switches,
    ]
    for flag in flags:
        arguments = [
            literal(f"--{flag.name}"),
            f"type={flag.kind}",
            f"default={literal(flag.default)}",
            f"help={literal(flag.help)}",
        ]
        lines += call("parser.add_argument", arguments, indent=4)
    if not end:
        return "\n".join([*lines, "    return parser.parse_args()"])
    return "\n".join(
        [*lines, "    args = parser.parse_args()", *end, "    return args"]
    )


def switch_lines(name: str, default: bool, text: str) -> list[str]:
    """Return a flag that is on or off, with its opposite where it is on."""
    flag, action = literal(f"--{name}"), 'action="store_true"'
    if not default:
        arguments = [flag, action, f"help={literal(text)}"]
        return call("parser.add_argument", arguments, indent=4)
    text = literal(f"{text} (the default)")
    opposite = [
        literal(f"--no-{name}"),
        f"dest={literal(name.replace('-', '_'))}",
        'action="store_false"',
    ]
    return [
        *call(
            "parser.add_argument",
            [flag, action, "default=True", f"help={text}"],
            indent=4,
        ),
        *call("parser.add_argument", opposite, indent=4),
    ]


def load_function(spec: ExperimentSpec) -> str:
    """Return `load_data`, which gives the samples as the model takes them."""
    data = spec.data
    if is_made_up(spec):
        return synthetic_function(spec)
    facts = data_facts(data)
    if facts.inputs:
        return given_function(spec, facts)
    shape = literal(input_shape(spec))[1:-1].rstrip(",")
    reader, read = "", _keras_lines(data.dataset)
    if data.dataset not in NAMED:
        reader, read = read_lines(spec, facts, input_shape(spec))
    floats, scale = literal("float32"), " / 255" if facts.pixels else ""
    samples = f"{floats}){scale}"
    if facts.pixels and takes_bytes(spec):
        samples = f"{literal('uint8')})"
    labels = _labels_code(spec, facts)
    train, test = (
        f"as_samples(*{part}, {limit})" if limit else f"as_samples(*{part})"
        for part, limit in (("train", data.train_samples), ("test", data.test_samples))
    )
    return reader + "\n".join(
        [
            "def as_samples(x, y, count=None):",
            f"    x = x[:count].reshape((-1, {shape})).astype({samples}",
            f"    return x, {labels}",
            "",
            "",
            "def load_data():",
            *read,
            f"    return {train}, {test}",
        ]
    )


def _keras_lines(dataset: str) -> list[str]:
    module = dataset.removesuffix("-full")
    return [f"    train, test = keras.datasets.{module}.load_data()"]


def _labels_code(spec: ExperimentSpec, facts: DatasetFacts) -> str:
    ((end, loss),) = compared_outputs(spec)
    met = loss.labels in ("", "binary") and meets(facts.class_shape or (), end.shape)
    if met or facts.label_shape is not None:
        return f'y[:count].reshape({literal((-1, *end.shape))}).astype("float32")'
    numbers = f"y[:count].reshape({literal((-1, *end.shape[:-1]))})"
    if (loss.labels or spec.data.labels) == "sparse":
        return f'{numbers}.astype("int32")'
    return f"keras.utils.to_categorical({numbers}, NUM_CLASSES)"


def trimmed_code(spec: ExperimentSpec) -> str:
    """Return source for the samples that training data are cut into."""
    if spec.data.preparation == "repeat":
        return "args.batch_size"
    steps, update = trimmed_steps(spec), "args.gradient_accumulation_count"
    if steps == spec.execution.gradient_accumulation:
        return f"samples * {update}"
    return f"samples * np.lcm({steps}, {update})"


def order_functions(spec: ExperimentSpec) -> list[str]:
    """Return `epoch_indices`: which samples an epoch takes, and what it calls."""
    repeats = spec.data.preparation == "repeat"
    one_pass = shuffled_pass if spec.data.shuffle else plain_pass
    whole = epoch_of_many_passes if repeats else epoch_of_one_pass
    return [printed(one_pass, "one_pass"), printed(whole, "epoch_indices")]


_SELECT = ["    config.auto_select_ipus = NUM_IPUS"]


def config_function(spec: ExperimentSpec, name: str, last_line: str) -> str:
    """Return a function that makes the IPUConfig, every field of the experiment set."""
    lines = [
        f"def {name}():",
        "    config = ipu.config.IPUConfig()",
        *(select_lines(spec) if shared_out(spec) else _SELECT),
    ]
    for path, value in spec.ipu.items():
        if path == "auto_select_ipus":
            continue
        enum = ENUM_OF_FIELD.get(path)
        shown = f"ipu.config.{enum.__name__}.{value}" if enum else _plain(value)
        lines += _set_lines(f"    config.{path} = ", value, shown)
    return "\n".join([*lines, f"    {last_line}"])


def _set_lines(before: str, value: object, shown: str) -> list[str]:
    """Return an assignment, a table that is too wide with a line for each entry."""
    if len(before) + len(shown) <= WIDTH or not isinstance(value, dict):
        return [before + shown]
    rows = [f"        {_plain(key)}: {_plain(item)}," for key, item in value.items()]
    return [before + "{", *rows, "    }"]


def _plain(value: object) -> str:
    """Return a configuration value; lists stay lists, as the type check wants."""
    if isinstance(value, list):
        return f"[{', '.join(_plain(item) for item in value)}]"
    return literal(value)


def output_shape(spec: ExperimentSpec) -> tuple[int, ...]:
    """Return the shape of the model's output for one sample."""
    model, _ = resolved(spec.model)
    assert model is not None
    ends = (layer for layer in model.layers if layer.name == model.outputs[0])
    return next(ends).output_shape


def classes(spec: ExperimentSpec) -> int:
    """Return the width of the model's output."""
    shape = output_shape(spec)
    return shape[-1] if shape else 1


def input_shape(spec: ExperimentSpec) -> tuple[int, ...]:
    """Return the shape of one sample."""
    model, _ = resolved(spec.model)
    assert model is not None
    if len(model.input_layers) != 1:
        raise ScriptError("model.layers: a script needs a model with one input")
    return model.input_layers[0].output_shape


def layers_of(spec: ExperimentSpec) -> tuple[LayerSpec, ...]:
    """Return the layers, with the model's type where it is not the usual one."""
    if spec.model.dtype == "float32":
        return spec.model.layers
    return tuple(
        layer
        if layer.kind == "Input"
        else replace(layer, settings={**layer.settings, "dtype": spec.model.dtype})
        for layer in spec.model.layers
    )


def stage_count(spec: ExperimentSpec) -> int:
    """Return the number of pipeline stages; 1 without a pipeline."""
    return max(spec.pipeline.stages, default=0) + 1


def ipu_count(spec: ExperimentSpec) -> int:
    """Return the IPUs that the script selects."""
    return max(topology(spec).ipus, 1)


def optimizer_code(spec: ExperimentSpec, rate: str) -> str:
    """Return the Keras optimizer with a learning rate given as source."""
    names = OPTIMIZERS[spec.train.optimizer]
    settings = keywords(names.settings(spec.train.momentum))
    return f"keras.optimizers.{names.keras}({', '.join([rate, *settings])})"


def pipeline_arguments(pipeline: Pipeline) -> list[str]:
    """Return the arguments that say how a pipeline runs."""
    ops = "ipu.ops.pipelining_ops"
    arguments = [f"pipeline_schedule={ops}.PipelineSchedule.{pipeline.schedule}"]
    if pipeline.device_mapping:
        arguments.append(f"device_mapping={list(pipeline.device_mapping)}")
    if pipeline.recomputation != "Auto":
        mode = f"{ops}.RecomputationMode.{pipeline.recomputation}"
        arguments.append(f"recomputation_mode={mode}")
    placed = [name for name in PLACEMENTS if getattr(pipeline, name)]
    arguments += [f"{name}=True" for name in placed]
    if pipeline.replicated_weight_sharding and not pipeline.offload_weights:
        arguments.append("offload_weights=False")
    return arguments
