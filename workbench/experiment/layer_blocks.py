"""Layers of a preset: plain entries, and blocks of layers that repeat.

The format, under `[model]`:

    [[model.blocks]]
    name = "bottleneck"
    layers = [
      { name = "reduce", kind = "Conv2D", filters = "$narrow", kernel_size = 1 },
      { name = "expand", kind = "Conv2D", filters = "$wide", kernel_size = 1 },
      { name = "join", kind = "Add", inputs = ["$in", "expand"] },
    ]

    [[model.layers]]
    kind = "Input"
    shape = [56, 56, 256]

    [[model.layers]]
    block = "bottleneck"
    name = "conv2"                            # default: the block's name
    repeat = 3                                # default: 1
    with = { narrow = 64, wide = 256 }        # what $narrow and $wide stand for

- A layer entry has `kind` and optionally `name` and `inputs`; all its other keys are
  settings under Keras' names. Without `name` it is called as Keras would call it;
  without `inputs` it takes the output of the entry before it.
- `$in` in `inputs` is what goes into the block: the use's own `inputs`, or the entry
  before it. The block's output is its last layer, and goes into the next repeat.
- Other names in a block's `inputs` are layers of the same block, else of the model.
- A layer of a block is called `use_layer`, or `use_2_layer` in the second repeat.
- `layers_of = "mnist-cpu"` under `[model]` stands for the layers and blocks of another
  preset: a packaged one, or a file beside this one. They are taken when it is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ipu_runtime.plan.config.field import nearest
from ipu_runtime.plan.model.model_spec import LayerSpec
from ipu_runtime.plan.problem import Problem
from ipu_runtime.reports.plain_text import is_plain

Table = Mapping[str, Any]
LAYER_KEYS = ("layers", "blocks")
LAYERS_OF = "layers_of"
_OWN_KEYS = frozenset({"name", "kind", "inputs"})
_USE_KEYS = frozenset({"block", "name", "repeat", "with", "inputs"})
_MOST_LAYERS = 20_000


def expand_layers(model: Table) -> tuple[tuple[LayerSpec, ...], tuple[Problem, ...]]:
    """Return the layers that a `[model]` table describes, blocks written out."""
    expansion = _Expansion()
    blocks = expansion.read_blocks(model.get("blocks", []))
    layers = model.get("layers", [])
    if not isinstance(layers, Sequence) or isinstance(layers, str):
        expansion.report("model.layers", "must be a list of tables")
        layers = []
    if len(layers) > _MOST_LAYERS:
        hint = f"a model may have {_MOST_LAYERS:,}"
        expansion.report("model.layers", f"{len(layers):,} are too many layers", hint)
        layers = []
    for position, entry in enumerate(layers):
        where = f"model.layers[{position}]"
        if not isinstance(entry, Mapping):
            expansion.report(where, "must be a table")
        elif "block" in entry:
            expansion.use_block(entry, blocks, where)
        else:
            expansion.add_layer(entry, where)
    expansion.check_inputs()
    return tuple(expansion.layers), tuple(expansion.problems)


def keras_name(kind: str) -> str:
    """Return the name that Keras gives the first layer of a class."""
    partly = re.sub(r"\W+", "", kind)
    partly = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", partly)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", partly).lower()


@dataclass
class _Expansion:
    """The layers and problems found so far."""

    layers: list[LayerSpec] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    where_of: dict[str, str] = field(default_factory=dict)
    unnamed: dict[str, int] = field(default_factory=dict)

    def report(self, where: str, problem: str, hint: str = "") -> None:
        """Note a problem."""
        self.problems.append(Problem(where, problem, hint))

    def read_blocks(self, blocks: object) -> dict[str, Sequence[Table]]:
        """Return the layers of every block by the block's name."""
        found: dict[str, Sequence[Table]] = {}
        if not isinstance(blocks, Sequence) or isinstance(blocks, str):
            self.report("model.blocks", "must be a list of tables")
            return found
        for position, block in enumerate(blocks):
            where = f"model.blocks[{position}]"
            if not isinstance(block, Mapping):
                self.report(where, "must be a table")
                continue
            name, layers = block.get("name"), block.get("layers")
            if not isinstance(name, str) or not name:
                self.report(f"{where}.name", "a block needs a name")
            elif name in found:
                self.report(f"{where}.name", f"{name!r} is the name of two blocks")
            elif not (
                isinstance(layers, list)
                and layers
                and all(isinstance(layer, Mapping) for layer in layers)
            ):
                self.report(f"{where}.layers", "a block needs a list of layers")
            else:
                found[name] = layers
        return found

    def add_layer(self, entry: Table, where: str) -> None:
        """Add one plain layer."""
        kind = entry.get("kind")
        if not isinstance(kind, str) or not kind:
            self.report(
                f"{where}.kind", "a layer needs a kind", 'for example kind = "Dense"'
            )
            return
        name = entry.get("name")
        if name is None:
            name = self._unused_name(kind)
        elif not isinstance(name, str) or not name:
            self.report(f"{where}.name", f"{name!r} is no name")
            return
        before = () if kind == "Input" else self._output()
        inputs = self._named_inputs(entry, where, before)
        self._append(LayerSpec(name, kind, _settings(entry), inputs), where)

    def use_block(
        self, use: Table, blocks: Mapping[str, Sequence[Table]], where: str
    ) -> None:
        """Add all layers of all repeats of a block."""
        for key in use:
            if key not in _USE_KEYS:
                guess = nearest(key, _USE_KEYS)
                hint = f"did you mean {guess}?" if guess else ""
                self.report(f"{where}.{key}", "unknown field of a block's use", hint)
        name, repeat = use["block"], use.get("repeat", 1)
        if not isinstance(name, str) or name not in blocks:
            guess = nearest(str(name), blocks)
            hint = f"did you mean {guess}?" if guess else "define it in model.blocks"
            self.report(f"{where}.block", f"unknown block {name!r}", hint)
            return
        if type(repeat) is not int or repeat < 1:
            self.report(f"{where}.repeat", f"{repeat!r} is no positive whole number")
            return
        if len(self.layers) + repeat * len(blocks[name]) > _MOST_LAYERS:
            self.report(
                f"{where}.repeat",
                f"{repeat} repeats make too many layers",
                f"a model may have {_MOST_LAYERS:,}",
            )
            return
        values, title = use.get("with", {}), use.get("name", name)
        if not isinstance(values, Mapping):
            self.report(f"{where}.with", "must be a table")
            return
        block_inputs = self._named_inputs(use, where, self._output())
        for turn in range(1, repeat + 1):
            prefix = f"{title}_{turn}_" if repeat > 1 else f"{title}_"
            self._add_repeat(blocks[name], prefix, block_inputs, values, where)
            block_inputs = self._output()

    def _add_repeat(
        self,
        layers: Sequence[Table],
        prefix: str,
        block_inputs: tuple[str, ...],
        values: Table,
        where: str,
    ) -> None:
        local = [str(layer.get("name") or layer.get("kind")) for layer in layers]
        before = block_inputs
        for layer, short_name in zip(layers, local, strict=True):
            kind = layer.get("kind")
            if not isinstance(kind, str) or not kind:
                self.report(
                    f"{where}.block",
                    f"layer {short_name!r} of the block has no kind",
                    "a block cannot use another block" if "block" in layer else "",
                )
                return
            inputs: list[str] = []
            for source in self._named_inputs(layer, where, before):
                if source == "$in":
                    inputs += block_inputs
                elif source in local and "inputs" in layer:
                    inputs.append(prefix + source)
                else:
                    inputs.append(source)
            settings = {
                key: self._filled(value, values, where)
                for key, value in _settings(layer).items()
            }
            spec = LayerSpec(prefix + short_name, kind, settings, tuple(inputs))
            self._append(spec, where)
            before = (spec.name,)

    def check_inputs(self) -> None:
        """Report inputs that no earlier layer produces."""
        earlier: set[str] = set()
        for layer in self.layers:
            for source in layer.inputs:
                if source not in earlier:
                    guess = nearest(source, earlier)
                    self.report(
                        f"{self.where_of[layer.name]}.inputs",
                        f"{layer.name} takes {source!r}, which no earlier layer is",
                        f"did you mean {guess}?" if guess else "",
                    )
            earlier.add(layer.name)

    def _append(self, layer: LayerSpec, where: str) -> None:
        if not is_plain(layer.name) or "\n" in layer.name:
            self.report(f"{where}.name", f"{layer.name!r} holds a control character")
            return
        for key, value in layer.settings.items():
            if not _is_plain_setting(value):
                self.report(
                    f"{where}.{key}",
                    "must be a text, a number, true or false, or a list of those",
                )
        if layer.name in self.where_of:
            first = self.where_of[layer.name]
            self.report(f"{where}.name", f"{layer.name!r} is also the name of {first}")
            return
        self.where_of[layer.name] = where
        self.layers.append(layer)

    def _output(self) -> tuple[str, ...]:
        return (self.layers[-1].name,) if self.layers else ()

    def _unused_name(self, kind: str) -> str:
        base = keras_name(kind)
        number = self.unnamed.get(base, 0)
        self.unnamed[base] = number + 1
        return f"{base}_{number}" if number else base

    def _named_inputs(
        self, entry: Table, where: str, default: tuple[str, ...]
    ) -> tuple[str, ...]:
        inputs = entry.get("inputs")
        if inputs is None:
            return default
        if isinstance(inputs, str):
            return (inputs,)
        if isinstance(inputs, list) and all(isinstance(name, str) for name in inputs):
            return tuple(inputs)
        self.report(f"{where}.inputs", "must be a list of layer names")
        return default

    def _filled(self, value: object, values: Table, where: str) -> object:
        if isinstance(value, list):
            return [self._filled(part, values, where) for part in value]
        if not (isinstance(value, str) and value.startswith("$")):
            return value
        if value[1:] in values:
            return values[value[1:]]
        self.report(
            f"{where}.with",
            f"gives no value for {value}",
            f"for example with = {{ {value[1:]} = 64 }}",
        )
        return value


def _is_plain_setting(value: object) -> bool:
    """Tell whether a setting is data: Keras makes objects of a table's choice."""
    if isinstance(value, list):
        return all(map(_is_plain_setting, value))
    if isinstance(value, str):
        return is_plain(value)
    return isinstance(value, bool | int | float)


def _settings(entry: Table) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in _OWN_KEYS}
