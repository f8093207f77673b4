"""What a layer kind declares: settings, shapes, operations and what it keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ipu_runtime.plan.layers.setting import FREE_SETTINGS, Setting, SettingError
from ipu_runtime.plan.model.model_spec import Layer, Shape, Weight
from ipu_runtime.plan.model.operations import Operation

Settings = Mapping[str, Any]
Operations = Callable[[Layer, bool], Sequence[Operation]]
"""Lists the forward pass, in training or not; the backward pass follows by rule."""


class ShapeError(ValueError):
    """A layer that cannot take its inputs; `setting` is to blame if it is not empty."""

    def __init__(self, problem: str, setting: str = "", hint: str = "") -> None:
        super().__init__(problem)
        self.setting = setting
        self.hint = hint


class Shaped(NamedTuple):
    """What follows from a layer's settings and input shapes."""

    output: Shape
    weights: tuple[Weight, ...] = ()


class Kept(NamedTuple):
    """What a layer's backward pass needs from its forward pass."""

    input: bool = False
    output: bool = False
    values: int = 0
    """Further values of one sample, of the model's type."""
    gradients: int = 0
    """Values of one sample that its backward pass alone has, at its fullest moment."""
    mask_bytes: int = 0
    """Results of random draws for one sample; these are never recomputed."""


def does_nothing(layer: Layer, training: bool) -> Sequence[Operation]:
    """List nothing, as a layer does that only looks at its input differently."""
    return ()


def keeps_nothing(layer: Layer) -> Kept:
    """Keep nothing for the backward pass."""
    return Kept()


class LayerKind(NamedTuple):
    """One Keras class."""

    name: str
    help: str
    own_settings: Mapping[str, Setting]
    shape: Callable[[Settings, tuple[Shape, ...]], Shaped]
    operations: Operations = does_nothing
    kept: Callable[[Layer], Kept] = keeps_nothing
    fewest_inputs: int = 1
    most_inputs: int = 1
    in_place: bool = False
    """Whether the result may lie where the input was."""
    view: bool = False
    """Whether the result is the input's memory, seen differently."""
    folds_into: tuple[str, ...] = ()
    """Kinds that it becomes a part of when nothing is trained."""
    stateful: bool = False
    """Whether it draws random numbers or changes weights in the forward pass."""

    @property
    def settings(self) -> Mapping[str, Setting]:
        """All accepted settings, those without effect on shape and cost too."""
        return {**self.own_settings, **FREE_SETTINGS}

    @property
    def required(self) -> tuple[str, ...]:
        """Settings that have no default."""
        return tuple(
            name for name, setting in self.own_settings.items() if setting.required
        )

    def complete(self, given: Settings) -> dict[str, Any]:
        """Return all own settings in one form, with defaults for the missing ones."""
        values = {}
        for name, setting in self.own_settings.items():
            try:
                values[name] = setting.read(given.get(name, setting.default))
            except SettingError:
                values[name] = setting.default
        return values


def size_of(shape: Sequence[int]) -> int:
    """Count the values of a tensor."""
    size = 1
    for extent in shape:
        size *= extent
    return size
