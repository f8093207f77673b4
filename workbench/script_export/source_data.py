"""Made-up data of scripts, and data of any number of inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ipu_runtime.plan.model.model_spec import Layer
from workbench.data.model_tensors import compared_outputs, model_tensors
from workbench.data.sample_counts import count
from workbench.data.synthetic_data import vocabulary_of
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.losses import Loss
from workbench.experiment.resolved_model import resolved
from workbench.models.source_model import TensorFacts
from workbench.script_export.python_text import literal


def has_many(spec: ExperimentSpec) -> bool:
    """Tell whether samples or labels are more than one array."""
    inputs, outputs, named_inputs, named_outputs = model_tensors(spec)
    one_of_each = len(inputs) == len(outputs) == 1
    return not one_of_each or named_inputs or named_outputs


def for_outputs(spec: ExperimentSpec, values: Sequence[str], indent: int) -> str:
    """Return source that gives every output of the model its value."""
    _, outputs, _, named = model_tensors(spec)
    if len(outputs) == 1 and not named:
        return values[0]
    rows = zip(outputs, values, strict=True)
    lines = [f"{literal(end.name)}: {v}" if named else v for end, v in rows]
    space, (start, end) = " " * indent, "{}" if named else "[]"
    return "\n".join([start, *(f"{space}    {v}," for v in lines), f"{space}{end}"])


def synthetic_function(spec: ExperimentSpec) -> str:
    """Return `load_data` that makes up samples, the same ones as the workbench."""
    counts = count(spec)
    entries, ends, named_inputs, named_outputs = model_tensors(spec)
    model, _ = resolved(spec.model)
    layers = model.layers if model else ()
    inputs = [_input_code(entry, layers) for entry in entries]
    outputs = [_label_code(end.shape, loss) for end, loss in compared_outputs(spec)]
    names = [f"x_{number}" for number in range(len(inputs))]
    labels = [f"y_{number}" for number in range(len(outputs))]
    assigned = zip([*names, *labels], [*inputs, *outputs], strict=True)
    x = packed(names, entries, named_inputs)
    y = packed(labels, ends, named_outputs)
    return "\n".join(
        [
            "def make_samples(part, samples):",
            "    rng = np.random.default_rng([SEED, part])",
            *(f"    {name} = {code}" for name, code in assigned),
            f"    return {x}, {y}",
            "",
            "",
            "def load_data():",
            f"    train, test = {counts.train.available}, {counts.test.available}",
            "    return make_samples(0, train), make_samples(1, test)",
        ]
    )


def _input_code(entry: TensorFacts, layers: tuple[Layer, ...]) -> str:
    shape = _shape(entry.shape)
    vocabulary = vocabulary_of(layers, entry.name)
    whole = np.dtype(entry.dtype).kind in "iub"
    if not whole and not vocabulary:
        return f"rng.random({shape}, np.float32)"
    dtype = entry.dtype if whole else "float32"
    return f"rng.integers(0, {vocabulary or 2}, {shape}).astype({literal(dtype)})"


def _label_code(shape: tuple[int, ...], loss: Loss) -> str:
    if not loss.labels:
        return f"rng.random({_shape(shape)}, np.float32)"
    if loss.labels == "binary":
        return f'rng.integers(0, 2, {_shape(shape)}).astype("float32")'
    classes = max(shape[-1], 1)
    numbers = f"rng.integers(0, {classes}, {_shape(shape[:-1])}, np.int32)"
    if loss.labels == "sparse":
        return numbers
    return f"np.eye({classes}, dtype=np.float32)[{numbers}]"


def _shape(shape: tuple[int, ...]) -> str:
    return f"(samples, {', '.join(map(str, shape))})" if shape else "(samples,)"


def packed(values: list[str], facts: Sequence[TensorFacts], named: bool) -> str:
    """Return source that puts arrays together as the model takes them."""
    if named:
        pairs = zip(facts, values, strict=True)
        return f"{{{', '.join(f'{literal(fact.name)}: {v}' for fact, v in pairs)}}}"
    return f"({', '.join(values)})" if len(values) > 1 else values[0]
