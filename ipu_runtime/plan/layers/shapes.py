"""From layers as a preset states them to a model with shapes and weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ipu_runtime.plan.config.field import nearest
from ipu_runtime.plan.layers import (
    attention,
    convolution,
    dense,
    elementwise,
    normalization,
    pooling,
    sequence,
)
from ipu_runtime.plan.layers.kind import (
    Kept,
    LayerKind,
    Settings,
    Shaped,
    ShapeError,
    size_of,
)
from ipu_runtime.plan.layers.setting import Setting, SettingError, sizes
from ipu_runtime.plan.model.gradients import backward_pass, forward_flops
from ipu_runtime.plan.model.model_spec import Layer, LayerSpec, ModelSpec, Shape
from ipu_runtime.plan.model.operations import Operation, OpKind
from ipu_runtime.plan.problem import Problem

MOST_VALUES = 2**40
"""Tensors of one sample beyond this are a mistake, not a model."""


def _input_shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    shape = settings["shape"]
    if any(extent < 1 for extent in shape):
        raise ShapeError(
            f"{list(shape)} has an unknown or empty dimension",
            "shape",
            "the device needs every extent, the batch left out",
        )
    return Shaped(shape)


_INPUT = LayerKind(
    "Input",
    "Where data enter the model.",
    {"shape": Setting(sizes, required=True), "dtype": Setting()},
    _input_shape,
    fewest_inputs=0,
    most_inputs=0,
)


def _no_shape(settings: Settings, inputs: tuple[Shape, ...]) -> Shaped:
    raise ShapeError("is known only from a built Keras model")


def _kept_by_traced(layer: Layer) -> Kept:
    work = layer.traced
    assert work is not None
    return Kept(
        input=work.keeps_input,
        output=work.keeps_output,
        values=work.kept_values,
        mask_bytes=work.mask_bytes,
    )


_TRACED = LayerKind("Traced", "Any other layer.", {}, _no_shape, kept=_kept_by_traced)
_IN_PLACE = (OpKind.ELEMENTWISE, OpKind.BIAS, OpKind.ACTIVATION)

LAYER_KINDS: Mapping[str, LayerKind] = {
    kind.name: kind
    for kind in (
        _INPUT,
        *dense.KINDS,
        *convolution.KINDS,
        *pooling.KINDS,
        *elementwise.KINDS,
        *normalization.KINDS,
        *sequence.KINDS,
        *attention.KINDS,
    )
}
"""Every layer kind that a preset may have, by Keras' class name."""


def kind_of(layer: Layer) -> LayerKind:
    """Return what a layer is: a kind that the plan knows, or what was traced of it."""
    work = layer.traced
    if work is None:
        return LAYER_KINDS[layer.kind]
    same_size = [layer.output_size] == [size_of(shape) for shape in layer.input_shapes]
    elementwise = all(op.kind in _IN_PLACE for op in work.forward)
    return _TRACED._replace(
        stateful=work.stateful,
        view=same_size and not work.forward,
        in_place=same_size and elementwise and not work.keeps_input,
    )


def forward_operations(layer: Layer, training: bool) -> Sequence[Operation]:
    """Return what a layer does to its inputs."""
    work = layer.traced
    if work is None:
        return LAYER_KINDS[layer.kind].operations(layer, training)
    return work.forward if training else work.inference


def backward_operations(layer: Layer, input_gradient: bool) -> Sequence[Operation]:
    """Return what the gradients of a layer take, those of its inputs if needed."""
    work = layer.traced
    if work is None:
        return backward_pass(
            LAYER_KINDS[layer.kind].operations(layer, True),
            input_gradient=input_gradient,
            trained=any(weight.trainable for weight in layer.weights),
        )
    return work.backward if input_gradient else work.weights_backward


def resolve_model(
    layers: Sequence[LayerSpec], dtype: str = "float32"
) -> tuple[ModelSpec | None, tuple[Problem, ...]]:
    """Work out shapes and weights; None if a problem leaves no model."""
    problems: list[Problem] = []
    resolved: dict[str, Layer | None] = {}
    ordered: list[Layer] = []
    for index, spec in enumerate(layers):
        where = f"model.layers[{index}]"
        if spec.name in resolved:
            problems.append(
                Problem(f"{where}.name", f"{spec.name!r} is taken by an earlier layer")
            )
            continue
        layer = _resolve_layer(spec, resolved, where, layers, problems)
        resolved[spec.name] = layer
        if layer is not None:
            ordered.append(layer)
    if problems:
        return None, tuple(problems)
    return model_of(ordered, dtype)


def resolve_inputs(
    specs: Sequence[LayerSpec],
) -> tuple[list[Layer], tuple[Problem, ...]]:
    """Return the inputs of a model, and what is wrong with them."""
    found = [
        shaped_layer(spec, (), f"model.layers[{at}]") for at, spec in enumerate(specs)
    ]
    problems = tuple(item for item in found if isinstance(item, Problem))
    return [item for item in found if isinstance(item, Layer)], problems


def model_of(
    layers: Sequence[Layer], dtype: str, weight_dtype: str = ""
) -> tuple[ModelSpec | None, tuple[Problem, ...]]:
    """Make a model of layers; what no other layer takes are its outputs."""
    problems: list[Problem] = []
    if not any(layer.kind == "Input" for layer in layers):
        problems.append(
            Problem("model.layers", "has no Input", "begin with a layer of kind Input")
        )
    elif all(layer.kind == "Input" for layer in layers):
        problems.append(Problem("model.layers", "has no layer besides its inputs"))
    if problems:
        return None, tuple(problems)
    used = {name for layer in layers for name in layer.inputs}
    outputs = tuple(
        layer.name
        for layer in layers
        if layer.name not in used and layer.kind != "Input"
    )
    return ModelSpec(tuple(layers), outputs, dtype, weight_dtype), ()


def setting_problems(spec: LayerSpec, where: str) -> list[Problem]:
    """Check the kind and the settings of one layer, without its inputs."""
    kind = LAYER_KINDS.get(spec.kind)
    if kind is None:
        guess = nearest(spec.kind, LAYER_KINDS)
        known = f"did you mean {guess}?" if guess else f"use {', '.join(LAYER_KINDS)}"
        return [
            Problem(
                f"{where}.kind", f"{spec.kind!r} is unknown", known, suggestion=guess
            )
        ]
    problems = []
    accepted = kind.settings
    for name, value in spec.settings.items():
        if name not in accepted:
            guess = nearest(name, accepted)
            own = ", ".join(kind.own_settings) or "no settings"
            hint = f"did you mean {guess}?" if guess else f"{kind.name} takes {own}"
            problems.append(Problem(f"{where}.{name}", "unknown", hint))
            continue
        try:
            accepted[name].read(value)
        except SettingError as error:
            problems.append(Problem(f"{where}.{name}", f"is {value!r}", str(error)))
    for name in kind.required:
        if name not in spec.settings:
            problems.append(
                Problem(f"{where}.{name}", "missing", f"{kind.name} needs it")
            )
    return problems


def _resolve_layer(
    spec: LayerSpec,
    resolved: Mapping[str, Layer | None],
    where: str,
    layers: Sequence[LayerSpec],
    problems: list[Problem],
) -> Layer | None:
    found = setting_problems(spec, where)
    found += _input_problems(spec, resolved, where, layers)
    problems += found
    if found:
        return None
    sources = [resolved[name] for name in spec.inputs]
    shapes = tuple(source.output_shape for source in sources if source is not None)
    if len(shapes) < len(sources):
        # The problem of the layer before says it already.
        return None
    layer = shaped_layer(spec, shapes, where)
    if isinstance(layer, Problem):
        problems.append(layer)
        return None
    return layer


def shaped_layer(
    spec: LayerSpec, shapes: tuple[Shape, ...], where: str
) -> Layer | Problem:
    """Work out a layer whose settings are valid, or say why it cannot take these."""
    kind = LAYER_KINDS[spec.kind]
    settings: dict[str, Any] = kind.complete(spec.settings)
    try:
        shaped = kind.shape(settings, shapes)
        weights = (weight.size for weight in shaped.weights)
        if max(size_of(shaped.output), *weights, 0) > MOST_VALUES:
            raise ShapeError(f"has a tensor of more than {MOST_VALUES:,} values")
    except ShapeError as error:
        at = f"{where}.{error.setting}" if error.setting else where
        text = (
            f"{spec.kind} {spec.name!r}: {error}" if not error.setting else str(error)
        )
        return Problem(at, text, error.hint)
    layer = Layer(spec, shapes, shaped.output, shaped.weights)
    return replace(layer, flops=forward_flops(kind.operations(layer, True)))


def _input_problems(
    spec: LayerSpec,
    resolved: Mapping[str, Layer | None],
    where: str,
    layers: Sequence[LayerSpec],
) -> list[Problem]:
    problems = []
    for name in spec.inputs:
        if name in resolved:
            continue
        if any(layer.name == name for layer in layers):
            text, hint = f"{name!r} comes later", "put a layer after what it takes"
        else:
            guess = nearest(name, resolved)
            text = f"there is no layer {name!r}"
            hint = f"did you mean {guess}?" if guess else ""
        problems.append(Problem(f"{where}.inputs", text, hint))
    kind = LAYER_KINDS.get(spec.kind)
    if kind is None or problems:
        return problems
    given = len(spec.inputs)
    if not kind.fewest_inputs <= given <= kind.most_inputs:
        if kind.fewest_inputs == kind.most_inputs:
            wanted = str(kind.fewest_inputs)
        elif kind.most_inputs >= 100:
            wanted = f"at least {kind.fewest_inputs}"
        else:
            wanted = f"{kind.fewest_inputs} to {kind.most_inputs}"
        problems.append(
            Problem(f"{where}.inputs", f"{given} inputs", f"{kind.name} takes {wanted}")
        )
    return problems
