"""Data of the user's in scripts: images, tables and functions, read the same way."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from workbench.data.csv_table import read_csv
from workbench.data.dataset_facts import DatasetFacts
from workbench.data.image_folder import COLOR_MODES, image_parts
from workbench.data.model_tensors import (
    compared_outputs,
    is_class_numbers,
    model_tensors,
    paired,
)
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.losses import Loss
from workbench.models.model_source import parse_source
from workbench.models.source_model import TensorFacts
from workbench.script_export.python_text import call, literal, printed
from workbench.script_export.script_error import ScriptError
from workbench.script_export.source_data import packed
from workbench.training.samples import share_out

_READ_DATASET = """\
def read_dataset(dataset):
    spec = dataset.element_spec
    shapes = [item.shape for item in tf.nest.flatten(spec)]
    batched = all(shape.rank and shape[0] is None for shape in shapes)
    join = np.concatenate if batched else np.stack
    rows = [tf.nest.flatten(row) for row in dataset.as_numpy_iterator()]
    return tf.nest.pack_sequence_as(spec, [join(column) for column in zip(*rows)])


"""


def data_imports(spec: ExperimentSpec) -> list[str]:
    """Return the modules that reading the data needs beside the usual ones."""
    if spec.data.read is not None:
        return ["import random", "import sys"]
    return ["import csv"] if _is_table(spec) else []


def _is_table(spec: ExperimentSpec) -> bool:
    return spec.data.dataset.lower().endswith(".csv")


def read_lines(
    spec: ExperimentSpec, facts: DatasetFacts, shape: tuple[int, ...]
) -> tuple[str, list[str]]:
    """Return functions that read images or a table, and lines that call them."""
    path = Path(os.path.expanduser(spec.data.dataset))
    if facts.images:
        parts = [literal(str(part)) for part in image_parts(path)]
        reader, name = _image_reader(shape), "load_images"
    elif _is_table(spec):
        parts = [literal(str(path))]
        reader, name = _table_reader(spec, path), "load_table"
    else:
        return "", [
            f"    with np.load({literal(spec.data.dataset)}) as arrays:",
            '        train = arrays["x_train"], arrays["y_train"]',
            '        test = arrays["x_test"], arrays["y_test"]',
        ]
    if len(parts) == 2:
        names = ("train", "test")
        loaded = zip(names, parts, strict=True)
        return reader, [f"    {part} = {name}({path})" for part, path in loaded]
    return f"{reader}{printed(share_out)}\n\n\n", [
        f"    both = {name}({parts[0]})",
        f"    train, test = share_out(both, {facts.test_samples})",
    ]


def _image_reader(shape: tuple[int, ...]) -> str:
    return f"""\
def load_images(folder):
    batches = keras.utils.image_dataset_from_directory(
        folder,
        color_mode={literal(COLOR_MODES[shape[-1]])},
        image_size={literal(shape[:2])},
        shuffle=False,
    )
    images, labels = zip(*batches.as_numpy_iterator())
    return np.concatenate(images), np.concatenate(labels)


"""


def _table_reader(spec: ExperimentSpec, path: Path) -> str:
    column = spec.data.label_column
    table = read_csv(path, path.stat().st_mtime_ns, column)
    number = "float(label)" if table.real else "int(label)"
    lines = []
    if table.classes:
        number = "classes.index(label)"
        lines = ["    classes = sorted(set(labels))"]
    return "\n".join(
        [
            "def load_table(path):",
            '    with open(path, newline="", encoding="utf-8-sig") as file:',
            "        names, *rows = (row for row in csv.reader(file) if row)",
            f"    place = [name.strip() for name in names].index({literal(column)})",
            "    labels = [row.pop(place).strip() for row in rows]",
            *lines,
            f"    numbers = [{number} for label in labels]",
            '    return np.array(rows, "float64"), np.array(numbers)',
            "\n\n",
        ]
    )


def given_function(spec: ExperimentSpec, facts: DatasetFacts) -> str:
    """Return `load_data` that calls the user's function, and what it calls."""
    inputs, outputs, named_inputs, named_outputs = model_tensors(spec)
    x_names = [f"x_{number}" for number in range(len(inputs))]
    y_names = [f"y_{number}" for number in range(len(outputs))]
    chosen = [
        *_chosen("x", facts.inputs, inputs),
        *_chosen("y", facts.outputs, outputs),
    ]
    forms = [_sample_form(end) for end in inputs]
    forms += [
        _label_form(loss, end, is_class_numbers(loss, given, end))
        for (given, end), (_, loss) in zip(
            paired(facts.outputs, outputs), compared_outputs(spec), strict=True
        )
    ]
    rows = zip([*x_names, *y_names], chosen, forms, strict=True)
    limits = (spec.data.train_samples, spec.data.test_samples)
    train, test = (
        f"as_samples(*{part}{f', {limit}' if limit else ''})"
        for part, limit in zip(("train", "test"), limits, strict=True)
    )
    source = parse_source(spec.data.dataset)
    in_file = source.place.endswith(".py")
    folder = os.path.dirname(source.place) if in_file else os.getcwd()
    module = Path(source.place).stem if in_file else source.place
    if in_file and not module.isidentifier():
        raise ScriptError(f"data.dataset: {module} is no name that can be imported")
    lines = [
        "def as_samples(x, y, count=None):",
        *(f"    {name} = {form.format(array)}" for name, array, form in rows),
        f"    return {packed(x_names, inputs, named_inputs)}, "
        + packed(y_names, outputs, named_outputs),
        "",
        "",
        "def load_data():",
        f"    sys.path.insert(0, {literal(folder)})",
        f"    from {module} import {source.function} as make_data",
        "",
        "    random.seed(0)",
        "    np.random.seed(0)",
        "    tf.random.set_seed(0)",
        "    made = make_data()",
        "    if isinstance(made, tf.data.Dataset):",
        f"        both = share_out(read_dataset(made), {facts.test_samples})",
        "    else:",
        "        both = map(read_dataset, made)",
        "    train, test = both",
        *call("", [train, test], indent=4, before="return "),
    ]
    return f"{_READ_DATASET}{printed(share_out)}\n\n\n" + "\n".join(lines)


def _chosen(
    name: str, given: Sequence[object], ends: Sequence[TensorFacts]
) -> list[str]:
    """Return source that takes every array out of what the function gives."""
    if getattr(given[0], "name", ""):
        return [f"{name}[{literal(end.name)}]" for end in ends]
    return [f"{name}[{n}]" for n in range(len(ends))] if len(ends) > 1 else [name]


def _sample_form(end: TensorFacts) -> str:
    dtype = "float32" if end.dtype == "float16" else end.dtype
    return f"{{}}[:count].astype({literal(dtype)})"


def _label_form(loss: Loss, end: TensorFacts, classes: bool) -> str:
    if not classes:
        whole = literal((-1, *end.shape))
        return f'{{}}[:count].reshape({whole}).astype("float32")'
    places = "".join(f", {extent}" for extent in end.shape[:-1])
    numbers = f'{{}}[:count].reshape((-1{places or ","})).astype("int32")'
    if loss.labels == "sparse":
        return numbers
    return f'np.eye({end.shape[-1]}, dtype="float32")[{numbers}]'
