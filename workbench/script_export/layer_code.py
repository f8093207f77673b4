"""The layers of a model as Keras source."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from itertools import pairwise

from ipu_runtime.plan.model.model_spec import LayerSpec
from workbench.script_export.python_text import call, keywords, literal

_POSITIONAL = {
    "Conv2D": ("filters", "kernel_size"),
    "Dense": ("units",),
    "Dropout": ("rate",),
    "Embedding": ("input_dim", "output_dim"),
    "MaxPooling2D": ("pool_size",),
}
"""Settings that everybody writes without their names."""


def is_chain(layers: Sequence[LayerSpec]) -> bool:
    """Tell whether every layer takes just the one before it, from a single input."""
    return layers[0].kind == "Input" and all(
        layer.inputs == (before.name,) for before, layer in pairwise(layers)
    )


def sequential_lines(layers: Sequence[LayerSpec]) -> list[str]:
    """Return the body of a function that builds a chain of layers."""
    lines = ["    return keras.Sequential(", "        ["]
    lines += _input_call(layers[0], indent=12, after=",")
    for layer in layers[1:]:
        lines += _constructor(layer, indent=12, after=",")
    return [*lines, "        ]", "    )"]


def functional_lines(
    layers: Sequence[LayerSpec], stages: Sequence[int] = ()
) -> list[str]:
    """Return the body of a function that builds a functional model.

    With stages, each stage's layers stand inside its `PipelineStage`.
    """
    names = _variable_names(layers)
    lines: list[str] = []
    inputs = [layer for layer in layers if layer.kind == "Input"]
    for layer in inputs:
        lines += _input_call(layer, indent=4, before=f"{names[layer.name]} = ")
    current = None
    index_of_stage = 0
    for layer in layers:
        if layer.kind == "Input":
            continue
        statement = _statement(layer, names, indent=8 if stages else 4)
        if stages and stages[index_of_stage] != current:
            current = stages[index_of_stage]
            lines += ["", f"    with ipu.keras.PipelineStage({current}):"]
        index_of_stage += 1
        lines += statement
    outputs = _outputs(layers)
    ends = [_several(inputs, names), _several(outputs, names)]
    return [*lines, "", *call("keras.Model", ends, indent=4, before="return ")]


def stage_lines(
    layers: Sequence[LayerSpec], stages: Sequence[int], stage: int, indent: int
) -> list[str]:
    """Return the statements of one stage of a chain, from `x` to `x`."""
    body = [layer for layer in layers if layer.kind != "Input"]
    lines: list[str] = []
    for layer, of_layer in zip(body, stages, strict=True):
        if of_layer == stage:
            training = layer.kind in ("Dropout", "BatchNormalization")
            after = "(x, training=training)" if training else "(x)"
            lines += _constructor(layer, indent=indent, before="x = ", after=after)
    return lines


def _statement(layer: LayerSpec, names: dict[str, str], indent: int) -> list[str]:
    given = ", ".join(names[name] for name in layer.inputs)
    if layer.kind in ("Add", "Concatenate"):
        given = f"[{given}]"
    elif layer.kind == "MultiHeadAttention" and len(layer.inputs) == 1:
        given = f"{given}, {given}"
    before = f"{names[layer.name]} = "
    return _constructor(layer, indent=indent, before=before, after=f"({given})")


def _constructor(
    layer: LayerSpec, *, indent: int = 0, before: str = "", after: str = ""
) -> list[str]:
    function = f"keras.layers.{layer.kind}"
    settings = dict(layer.settings)
    arguments = []
    for name in _POSITIONAL.get(layer.kind, ()):
        if name not in settings:
            break
        arguments.append(literal(settings.pop(name)))
    arguments += keywords(settings)
    return call(function, arguments, indent=indent, before=before, after=after)


def _input_call(
    layer: LayerSpec, *, indent: int = 0, before: str = "", after: str = ""
) -> list[str]:
    arguments = keywords(layer.settings)
    return call("keras.Input", arguments, indent=indent, before=before, after=after)


def _outputs(layers: Sequence[LayerSpec]) -> list[LayerSpec]:
    used = {name for layer in layers for name in layer.inputs}
    return [layer for layer in layers if layer.name not in used]


def _variable_names(layers: Sequence[LayerSpec]) -> dict[str, str]:
    """Name a value `x` if only the next layer takes it, otherwise after its layer."""
    takers: dict[str, list[int]] = {layer.name: [] for layer in layers}
    for index, layer in enumerate(layers):
        for name in layer.inputs:
            takers[name].append(index)
    names = {}
    single = sum(layer.kind == "Input" for layer in layers) == 1
    alone = len(_outputs(layers)) == 1
    for index, layer in enumerate(layers):
        if layer.kind == "Input":
            names[layer.name] = "inputs" if single else _identifier(layer.name)
        elif takers[layer.name] == [index + 1] or (not takers[layer.name] and alone):
            names[layer.name] = "x"
        else:
            names[layer.name] = _identifier(layer.name)
    return names


def _several(layers: Sequence[LayerSpec], names: dict[str, str]) -> str:
    listed = ", ".join(names[layer.name] for layer in layers)
    return listed if len(layers) == 1 else f"[{listed}]"


def _identifier(name: str) -> str:
    text = re.sub(r"\W", "_", name)
    taken = keyword.iskeyword(text) or text in ("x", "inputs", "keras", "ipu", "np")
    return f"layer_{text}" if text[:1].isdigit() or taken else text
