"""Arguments, attributes and methods that layers and metrics of Keras 2 had."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_runtime.compat.habits import asked_by_script, hint, replacing
from ipu_runtime.frameworks.habit_points import own_metrics
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.patching import Patch, instead
from ipu_runtime.frameworks.types import Layer, Tensor

_MEANS = "_ipu_added_means"
"""Attribute of a layer: what it has added with `add_metric`, by name."""


def accept_layer_habits() -> None:
    """Let layers of Keras 3 be made and used as those of Keras 2 were."""
    _take_older_arguments()
    _take_other_arguments_of_calls()
    _track_variables()
    layer, of_inputs = keras.layers.Layer, keras.layers.InputLayer
    own_input = of_inputs.input
    for owner, name, value in (
        (layer, "add_metric", _add_metric),
        (layer, "input_shape", _ShapeOf("input")),
        (layer, "output_shape", _ShapeOf("output")),
        (of_inputs, "input", property(functools.partial(_input, own_input.fget))),
    ):
        Patch(owner, name, instead(value)).install()


def _input(own: Callable[[Layer], Tensor], layer: Layer) -> Tensor:
    return layer.output if asked_by_script() else own(layer)


def _take_older_arguments() -> None:
    @replacing(keras.layers.InputLayer, "__init__")
    def make_input(
        original: Any, self: Any, shape: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        if isinstance(shape, int):
            hint("Input(shape=80)")
            shape = (shape,)
        original(self, shape, *args, **kwargs)
        # Data in a dict are found by the tensor's name, which was the layer's.
        self.output.name = self.name

    @replacing(keras.layers.Layer, "__init__")
    def construct(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        if "batch_input_shape" in kwargs:
            kwargs["input_shape"] = tuple(kwargs.pop("batch_input_shape"))[1:]
        if not {"input_shape", "input_dim"} & kwargs.keys():
            original(self, *args, **kwargs)
            return
        hint("Layer(input_shape=)")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Do not pass an `input_shape`")
            original(self, *args, **kwargs)

    for owner in (keras.layers.Layer, keras.Metric):

        @replacing(owner, "add_weight")
        def add_weight(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
            if args and isinstance(args[0], str):
                hint("add_weight('name', shape)")
                order = ("name", "shape", "dtype", "initializer", "regularizer")
                kwargs = dict(zip(order, args, strict=False)) | kwargs
                args = ()
            return original(self, *args, **kwargs)


def _take_other_arguments_of_calls() -> None:
    @replacing(keras.layers.Layer, "__call__")
    def call(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        if args[1:]:
            names = self.call_signature_parameters
            for index, name in enumerate(names[: len(args)]):
                if name == "training" or isinstance(args[index], bool):
                    hint("layer(tensor, training)")
                    named = dict(zip(names[index:], args[index:], strict=False))
                    return original(self, *args[:index], **named, **kwargs)
        return original(self, *args, **kwargs)


def _track_variables() -> None:
    @replacing(keras.layers.Layer, "__setattr__")
    def assign(original: Any, self: Any, name: str, value: Any) -> None:
        if isinstance(value, tf.Variable):
            hint("layer.weight = tf.Variable(...)")
            value = keras.Variable(value, trainable=value.trainable, name=name)
        original(self, name, value)


def _add_metric(
    self: Any, value: Any, name: str | None = None, aggregation: str | None = "mean"
) -> None:
    """Let the mean of a value appear among the metrics of the model."""
    if aggregation not in (None, "mean"):
        raise ValueError(f"aggregation is 'mean' or None, not {aggregation!r}.")
    hint("layer.add_metric")
    means = vars(self).setdefault(_MEANS, {})
    if name not in means:
        with tf.init_scope():
            means[name] = keras.metrics.Mean(name=name)
        own_metrics(self).append(means[name])
    means[name].update_state(value)


class _ShapeOf:
    """Reads `layer.input.shape` as `layer.input_shape`; a layer may have its own."""

    def __init__(self, side: str) -> None:
        self._side = side

    def __get__(self, layer: Layer, owner: type) -> Any:
        if layer is None or not asked_by_script():
            raise AttributeError(f"{owner.__name__} has no {self._side}_shape")
        hint("layer.input_shape")
        tensors = getattr(layer, self._side)
        return keras.tree.map_structure(lambda tensor: tensor.shape, tensors)
