"""Arguments, attributes and methods that layers and metrics of Keras 2 had."""

from __future__ import annotations

import warnings
from typing import Any

import tensorflow as tf

from ipu_runtime.compat.habits import asked_by_script, hint, replacing
from ipu_runtime.frameworks.habit_points import answer_to_older_name
from ipu_runtime.frameworks.keras_api import keras

_MEANINGLESS = {
    "fused": ("BatchNormalization(fused=)", (None, False, True)),
    "renorm": ("BatchNormalization(fused=)", (False,)),
    "virtual_batch_size": ("BatchNormalization(fused=)", (None,)),
    "time_major": ("LSTM(time_major=False)", (False,)),
}
"""Arguments that change nothing if they have one of these values."""


def accept_layer_habits() -> None:
    """Let layers of Keras 3 be made and used as those of Keras 2 were."""
    _take_older_arguments()
    _take_other_arguments_of_calls()
    _track_variables()
    keras.layers.Layer.add_metric = _add_metric
    keras.layers.Layer.add_update = lambda self, updates, inputs=None: hint(
        "layer.add_update"
    )
    keras.layers.Layer.input_shape = _ShapeOf("input")
    keras.layers.Layer.output_shape = _ShapeOf("output")
    own_input = keras.layers.InputLayer.input
    keras.layers.InputLayer.input = property(
        lambda self: self.output if asked_by_script() else own_input.fget(self)
    )
    answer_to_older_name(keras.layers.Layer, property(_name, _rename))
    keras.Metric.reset_states = _reset_states


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
        for name, (habit, values) in _MEANINGLESS.items():
            if name in kwargs and kwargs[name] in values:
                hint(habit)
                del kwargs[name]
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
            if "experimental_autocast" in kwargs:
                hint("add_weight(experimental_autocast=)")
                kwargs["autocast"] = kwargs.pop("experimental_autocast")
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
    means = vars(self).setdefault("_older_metrics", {})
    if name not in means:
        with tf.init_scope():
            means[name] = keras.metrics.Mean(name=name)
        self._metrics.append(means[name])
    means[name].update_state(value)


def _name(self: Any) -> str:
    hint("layer._name")
    return str(self.name)


def _rename(self: Any, name: str) -> None:
    hint("layer._name")
    self.name = name


class _ShapeOf:
    """Reads `layer.input.shape` as `layer.input_shape`; a layer may have its own."""

    def __init__(self, side: str) -> None:
        self._side = side

    def __get__(self, layer: Any, owner: type) -> Any:
        if layer is None or not asked_by_script():
            raise AttributeError(f"{owner.__name__} has no {self._side}_shape")
        hint("layer.input_shape")
        tensors = getattr(layer, self._side)
        return keras.tree.map_structure(lambda tensor: tensor.shape, tensors)


def _reset_states(self: Any) -> None:
    hint("metric.reset_states")
    self.reset_state()
