"""Arguments and methods that models and callbacks of Keras 2 had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import tensorflow as tf

from ipu_runtime.compat.habits import hint, replacing
from ipu_runtime.frameworks.habit_points import (
    compute_output_spec,
    direction_patch,
    has_compiled_loss,
    trainable_when_compiled,
)
from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.keras_calls import layers_inside
from ipu_runtime.frameworks.keras_training import mark_keras_default
from ipu_runtime.frameworks.patching import Patch, around, instead
from ipu_runtime.frameworks.types import KerasModel


def accept_model_habits() -> None:
    """Let models and callbacks of Keras 3 be used as those of Keras 2 were."""
    _take_older_arguments()
    _keep_metrics()
    _name_rates()
    _build_by_shapes()
    _evaluate_without_loss()
    direction_patch(around(_guess_direction)).install()
    Patch(keras.Model, "reset_states", instead(_reset_states)).install()


def _take_older_arguments() -> None:
    @replacing(keras.Model, "__init__")
    def construct_model(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        if args and args[0] is self:
            hint("super().__init__(self)")
            args = args[1:]
        original(self, *args, **kwargs)

    @replacing(keras.Model, "compile")
    def compile_model(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        if _one_list_for_all(self, kwargs.get("metrics")):
            hint("compile(metrics=['accuracy']) of several outputs")
            kwargs["metrics"] = [list(kwargs["metrics"]) for _ in self.outputs]
        return original(self, *args, **kwargs)

    for method in ("fit", "evaluate", "predict"):

        @replacing(keras.Model, method)
        def run(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
            with trainable_as_compiled(self):
                return original(self, *args, **kwargs)


def _one_list_for_all(model: KerasModel, metrics: Any) -> bool:
    outputs = len(getattr(model, "outputs", None) or ())
    named = isinstance(metrics, list) and all(isinstance(m, str) for m in metrics)
    return outputs > 1 and named and len(metrics) != outputs


def _guess_direction(original: Any, callback: Any) -> None:
    try:
        original(callback)
    except ValueError:
        hint("ModelCheckpoint(monitor=own metric)")
        callback.mode = "max" if "acc" in callback.monitor else "min"
        original(callback)


def _evaluate_without_loss() -> None:
    @replacing(keras.Model, "compute_loss")
    def compute_loss(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        no_loss = not has_compiled_loss(self) and not self.losses
        if no_loss and kwargs.get("training") is False:
            hint("evaluate() without a loss")
            return tf.zeros(())
        return original(self, *args, **kwargs)


def _keep_metrics() -> None:
    for method in ("train_on_batch", "test_on_batch"):

        @replacing(keras.Model, method)
        def run(
            original: Any,
            self: Any,
            *args: Any,
            reset_metrics: bool = True,
            **kwargs: Any,
        ) -> Any:
            keeping: AbstractContextManager[None] = nullcontext()
            if not reset_metrics:
                hint("train_on_batch(reset_metrics=)")
                keeping = Patch(self, "reset_metrics", instead(_do_nothing)).applied()
            with keeping, trainable_as_compiled(self):
                return original(self, *args, **kwargs)


def _do_nothing() -> None:
    """Instead of a method that would reset metrics."""


@contextmanager
def trainable_as_compiled(model: KerasModel) -> Iterator[None]:
    """Let layers learn inside as they did when the model was compiled.

    Two models that share layers were trained in turn by it, each with its own.
    """
    compiled = trainable_when_compiled(model)
    now = {layer: layer.trainable for layer in compiled}
    if now == compiled:
        yield
        return
    hint("layer.trainable = False after compile")
    try:
        _set_trainable(compiled)
        yield
    finally:
        _set_trainable(now)


def _set_trainable(states: dict[Any, bool]) -> None:
    # A model sets its layers too, which come after it here.
    for layer, trainable in states.items():
        layer.trainable = trainable


def _build_by_shapes() -> None:
    # `Layer.__call__` finds shapes by the names of the parameters of `build`.
    mark, stack = keras.layers.Layer.build, keras.Sequential.build

    def build(self: Any, input_shape: Any) -> None:
        unbuilt = isinstance(self, keras.Model) and any(
            not layer.built for layer in self.layers
        )
        if unbuilt:
            hint("model.build(shape)")
            _call_symbolically(self, input_shape)
        mark(self, input_shape)

    def build_stack(self: Any, input_shape: Any = None) -> None:
        declared = self.inputs[0].shape if self.built and self.inputs else None
        if declared and tf.TensorShape(input_shape).is_compatible_with(declared):
            return
        stack(self, input_shape)

    mark_keras_default(build)
    Patch(keras.layers.Layer, "build", instead(build)).install()
    Patch(keras.Sequential, "build", instead(build_stack)).install()


def _call_symbolically(model: KerasModel, shapes: Any) -> None:
    """Let the layers of a subclassed model see what they get."""
    inputs = keras.tree.map_shape_structure(keras.KerasTensor, _plain(shapes))
    training = "training" in model.call_signature_parameters
    compute_output_spec(model.call, inputs, **({"training": False} if training else {}))


def _plain(shapes: Any) -> Any:
    """Return shapes as tuples of numbers, whatever TensorFlow called them."""
    if isinstance(shapes, dict):
        return {key: _plain(shape) for key, shape in shapes.items()}
    if isinstance(shapes, (list, tuple)) and any(
        isinstance(item, (dict, list, tuple, tf.TensorShape)) for item in shapes
    ):
        return [_plain(shape) for shape in shapes]
    return tuple(tf.TensorShape(shapes).as_list())


class _Histories(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        if name != "lr" or "learning_rate" not in self:
            raise KeyError(name)
        hint("history['lr']")
        return self["learning_rate"]


def _name_rates() -> None:
    @replacing(keras.callbacks.History, "__init__")
    def construct(original: Any, self: Any) -> None:
        original(self)
        self.history = _Histories(self.history)


def _reset_states(self: Any) -> None:
    hint("model.reset_states")
    for layer in layers_inside(self):
        if layer is not self and hasattr(layer, "reset_state"):
            layer.reset_state()
