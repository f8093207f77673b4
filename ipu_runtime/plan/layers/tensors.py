"""The tensors of a model: who makes them, who needs them, where they share memory."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

from ipu_runtime.plan.layers.kind import Kept, LayerKind
from ipu_runtime.plan.layers.shapes import kind_of
from ipu_runtime.plan.model.model_spec import (
    Layer,
    ModelSpec,
    count_consumers,
    gradient_needed,
)

LABEL_BYTES = 4
_INPUT_BYTES = {"float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1}


class Tensor(NamedTuple):
    """One piece of memory that a layer fills; layers in place and views share it."""

    name: str
    """The layer that makes it, or the input that it is."""
    maker: int
    """Index in `stage_layers`; -1 for an input of the model."""
    ready: int
    """The last layer that changes it in place, or looks at it as a view."""
    sample_bytes: int
    users: tuple[int, ...]
    """Layers that take it, those in place among them, in order."""
    readers: int
    """How many layers take it without sharing its memory."""
    keepers: tuple[int, ...]
    """Layers whose backward pass needs it, in order."""
    has_gradient: bool
    is_output: bool


class TensorTable(NamedTuple):
    """The tensors of a model, for one sample."""

    tensors: tuple[Tensor, ...]
    extra_bytes: tuple[int, ...]
    """Further bytes that each layer keeps."""
    gradient_bytes: tuple[int, ...]
    """Gradients that live and die within each layer's backward pass."""
    mask_bytes: tuple[int, ...]
    """Results of random draws that each layer keeps, even when it is recomputed."""


@functools.lru_cache(maxsize=64)
def find_tensors(model: ModelSpec) -> TensorTable:
    """Follow every tensor through the model."""
    value_bytes = model.value_bytes
    layers = model.stage_layers
    index = {layer.name: position for position, layer in enumerate(layers)}
    consumers = count_consumers(model)
    needed = gradient_needed(model)
    kinds, kept = _kinds_and_kept(model)
    root: dict[str, str] = {}
    sharers: dict[str, list[int]] = {}
    users: dict[str, list[int]] = {}
    keepers: dict[str, list[int]] = {}
    outputs: set[str] = set()
    by_name = {layer.name: layer for layer in model.layers}
    for layer in model.layers:
        own = _root_of(layer, kinds, root, consumers, kept)
        root[layer.name] = own
        users.setdefault(own, [])
        sharers.setdefault(own, []).append(index.get(layer.name, -1))
        keepers.setdefault(own, [])
        if layer.kind == "Input":
            continue
        at = index[layer.name]
        for name in dict.fromkeys(layer.inputs):
            users[root[name]].append(at)
            if kept[layer.name].input:
                keepers[root[name]].append(at)
        if kept[layer.name].output:
            keepers[own].append(at)
        if layer.name in model.outputs:
            outputs.add(own)
    tensors = tuple(
        Tensor(
            name=name,
            maker=index.get(name, -1),
            ready=max(sharers[name]),
            sample_bytes=by_name[name].output_size
            * _bytes_of(by_name[name], model, value_bytes),
            users=tuple(users[name]),
            readers=len(set(users[name]) - set(sharers[name])),
            keepers=tuple(keepers[name]),
            has_gradient=needed[name],
            is_output=name in outputs,
        )
        for name in users
    )
    return TensorTable(
        tensors,
        tuple(kept[layer.name].values * value_bytes for layer in layers),
        tuple(kept[layer.name].gradients * value_bytes for layer in layers),
        tuple(kept[layer.name].mask_bytes for layer in layers),
    )


def _kinds_and_kept(
    model: ModelSpec,
) -> tuple[dict[str, LayerKind], dict[str, Kept]]:
    """Return what every layer but inputs is and keeps; those alike are asked once."""
    known: dict[int, tuple[LayerKind, Kept]] = {}
    kinds: dict[str, LayerKind] = {}
    kept: dict[str, Kept] = {}
    for layer, number in zip(model.layers, model.alike, strict=True):
        if layer.kind == "Input":
            continue
        if number not in known:
            kind = kind_of(layer)
            known[number] = kind, kind.kept(layer)
        kinds[layer.name], kept[layer.name] = known[number]
    return kinds, kept


@functools.lru_cache(maxsize=64)
def streamed_bytes(model: ModelSpec, batch: int, label_values: int) -> int:
    """Count what the host sends for one micro-batch."""
    inputs = sum(
        tensor.sample_bytes
        for tensor in find_tensors(model).tensors
        if tensor.maker < 0
    )
    return batch * (inputs + label_values * LABEL_BYTES)


def _root_of(
    layer: Layer,
    kinds: Mapping[str, LayerKind],
    root: dict[str, str],
    consumers: Mapping[str, int],
    kept: dict[str, Kept],
) -> str:
    """Return the layer whose memory holds this layer's output."""
    if layer.kind == "Input":
        return layer.name
    kind = kinds[layer.name]
    if kind.view:
        return root[layer.inputs[0]]
    if kind.in_place:
        for name in layer.inputs:
            if name in kept and consumers[name] == 1 and not kept[name].output:
                return root[name]
    return layer.name


def _bytes_of(layer: Layer, model: ModelSpec, value_bytes: int) -> int:
    """Return the bytes of one value of a layer's output."""
    if layer.kind != "Input":
        return value_bytes
    dtype = layer.spec.settings.get("dtype")
    if dtype is not None:
        return _INPUT_BYTES.get(str(dtype), 4)
    embedded = all(
        other.kind == "Embedding"
        for other in model.layers
        if layer.name in other.inputs
    )
    return 4 if embedded else value_bytes
