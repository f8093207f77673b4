"""The habits of older scripts that the runtime accepts, and what replaces each."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ipu_runtime.frameworks.patching import (
    Patch,
    answering,
    around,
    calling_module,
    defining,
    patches_everywhere,
)
from ipu_runtime.frameworks.private_names import LAYER_NAME

logger = logging.getLogger("tensorflow")

HABITS = {
    "Input(shape=80)": "`Input(shape=(80,))`",
    "Optimizer(lr=)": "`learning_rate=`",
    "Optimizer(decay=)": "a schedule such as `InverseTimeDecay(rate, 1, decay)`",
    "optimizer.lr": "`optimizer.learning_rate`",
    "optimizer.weights": "`optimizer.variables`",
    "optimizer.minimize": "`tf.GradientTape` and `optimizer.apply_gradients`",
    "apply_gradients(name=)": "nothing but gradients and variables",
    "apply_gradients(experimental_aggregate_gradients=)": "gradients that it adds up",
    "schedule(float step)": "schedules that take an integer step",
    "Optimizer(gradient_transformers=)": "an optimizer whose `apply` changes them",
    "optimizer.get_scaled_loss": "`scale_loss`; `apply` unscales the gradients",
    "LossScaleOptimizer(dynamic=False)": "`loss_scale_factor=` of the optimizer",
    "save_weights(path)": "a path that ends in `.weights.h5`",
    "save_weights(save_format=)": "a path that ends in `.weights.h5`",
    "model.save(directory)": "a path that ends in `.keras`, or `model.export`",
    "ModelCheckpoint(path)": "a path that ends in `.keras` or `.weights.h5`",
    "ModelCheckpoint(monitor=own metric)": "`mode='min'` or `mode='max'`",
    "ModelCheckpoint(period=)": "`save_freq=`, in batches",
    "TensorBoard(write_grads=, batch_size=)": "neither",
    "history['lr']": "`history['learning_rate']`",
    "compile(experimental_steps_per_execution=)": "`steps_per_execution=`",
    "compile(steps_per_execution=None)": "`steps_per_execution=1`, or nothing",
    "evaluate() without a loss": "a `loss` in `compile`",
    "train_on_batch(reset_metrics=)": "`model.reset_metrics()` between batches",
    "layer.trainable = False after compile": "`compile` again after each change",
    "fit(workers=)": "nothing: the data set says how it is read",
    "model.build(shape)": "a call of the model, or a `build` of its own",
    "model.reset_states": "`reset_state` of the recurrent layers",
    "metric.reset_states": "`metric.reset_state`",
    "tape.watch(Keras variable)": "nothing: tapes watch trainable variables",
    "variable.dtype.size": "`tf.as_dtype(variable.dtype).size`",
    "variable.name": "`variable.path`",
    "variable.get_shape": "`variable.shape`",
    "variable.read_value": "`variable.value`",
    "tensor.shape.as_list": "`list(tensor.shape)`",
    "tensor.ref": "`id(tensor)`",
    "tensor.name": "`tensor._keras_history.operation.name`",
    "tensor._keras_history.layer": "`tensor._keras_history.operation`",
    "tensor.get_shape": "`tensor.shape`",
    "TensorFlow function of a Keras tensor": "`keras.ops`, or a layer that calls it",
    "add_weight(experimental_autocast=)": "`autocast=`",
    "layer._name": "`layer.name`",
    "super().__init__(self)": "`super().__init__()`",
    "compile(metrics=['accuracy']) of several outputs": "a list for each output",
    "add_weight('name', shape)": "`add_weight(shape=..., name=...)`",
    "Layer(input_shape=)": "`keras.Input` as the first layer",
    "BatchNormalization(fused=)": "nothing: it chooses by itself",
    "LSTM(time_major=False)": "nothing: batches come first",
    "layer(tensor, training)": "`layer(tensor, training=training)`",
    "layer.weight = tf.Variable(...)": "`layer.weight = layer.add_weight(...)`",
    "layer.add_metric": "a metric of its own that `call` updates",
    "layer.add_update": "nothing: assignments in `call` take effect",
    "layer.input_shape": "`layer.input.shape`",
    "Loss(reduction='auto')": "`reduction='sum_over_batch_size'`",
    "keras.losses.mse": "`keras.losses.mean_squared_error`, as other names of today",
    "keras.backend.mean": "`keras.ops.mean`, as for other functions",
    "keras.experimental": "`keras.optimizers.schedules`, `keras.mixed_precision`",
    "keras.engine": "`keras.Model`, `keras.layers.Layer` and other public names",
    "keras.optimizer_v2": "`keras.optimizers`",
    "layers.experimental.preprocessing": "`keras.layers`",
    "backend.learning_phase": "the `training` argument of `call`",
    "backend.function": "`keras.Model(inputs, outputs)`",
    "np.int": "Python's own types, or NumPy's with a size",
}
"""What Keras 3 (NumPy 2 in the last line) wants instead of each habit."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A habit that is only an argument of another name or value, or of none today."""

    habit: str
    function: str
    """By its public name; what Keras has not in public is in `habit_points`."""
    older: str
    newer: str = ""
    """Its name today; empty: it is dropped, or has another value."""
    values: Collection[Any] = ()
    """Those that mean nothing today, or what they are today; none: any."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A habit that is only an attribute or a method of another name, or of none."""

    habit: str
    owner: str
    older: str
    newer: str = ""
    """Its name today; empty: it is a method that does nothing."""
    method: bool = False
    """Whether it was called, and is an attribute today."""


_LAYER = "keras.layers.Layer.__init__"
_NORMALIZATION = "BatchNormalization(fused=)"
_AUTOCAST = ("experimental_autocast", "autocast")
_STEPS = ("experimental_steps_per_execution", "steps_per_execution")
_BOARD = "keras.callbacks.TensorBoard.__init__"
_CHECKPOINT = "keras.callbacks.ModelCheckpoint.__init__"
_SUM = {"auto": "sum_over_batch_size"}

RULES: tuple[Argument | Attribute, ...] = (
    Argument("Optimizer(lr=)", "BaseOptimizer.__init__", "lr", "learning_rate"),
    Attribute("optimizer.weights", "BaseOptimizer", "weights", "variables"),
    Argument("ModelCheckpoint(path)", _CHECKPOINT, "options"),
    *(
        Argument("TensorBoard(write_grads=, batch_size=)", _BOARD, name)
        for name in ("write_grads", "batch_size")
    ),
    Argument(
        "compile(experimental_steps_per_execution=)", "keras.Model.compile", *_STEPS
    ),
    Argument(
        "compile(steps_per_execution=None)",
        "keras.Model.compile",
        "steps_per_execution",
        values={None: 1},
    ),
    *(
        Argument("fit(workers=)", f"keras.Model.{method}", name)
        for method in ("fit", "evaluate", "predict")
        for name in ("workers", "use_multiprocessing", "max_queue_size")
    ),
    Attribute("metric.reset_states", "keras.Metric", "reset_states", "reset_state"),
    Attribute(
        "variable.get_shape", "keras.Variable", "get_shape", "shape", method=True
    ),
    Attribute("tensor._keras_history.layer", "KerasHistory", "layer", "operation"),
    *(
        Argument("add_weight(experimental_autocast=)", function, *_AUTOCAST)
        for function in ("keras.layers.Layer.add_weight", "keras.Metric.add_weight")
    ),
    Attribute("layer._name", "keras.layers.Layer", LAYER_NAME, "name"),
    Argument(_NORMALIZATION, _LAYER, "fused", values=(None, False, True)),
    Argument(_NORMALIZATION, _LAYER, "renorm", values=(False,)),
    Argument(_NORMALIZATION, _LAYER, "virtual_batch_size", values=(None,)),
    Argument("LSTM(time_major=False)", _LAYER, "time_major", values=(False,)),
    Attribute("layer.add_update", "keras.layers.Layer", "add_update", method=True),
    Argument(
        "Loss(reduction='auto')", "keras.losses.Loss.__init__", "reduction", values=_SUM
    ),
)
"""All of those habits that only rename or drop something; the others are functions."""

_KERAS = ("Keras 2", "Keras 3")
_told: set[str] = set()


def hint(habit: str) -> None:
    """Log, once for each habit, what to write today."""
    wanted = HABITS[habit]
    if habit not in _told:
        _told.add(habit)
        older, newer = ("NumPy 1", "NumPy 2") if habit == "np.int" else _KERAS
        message = "%s's `%s` is accepted here; %s wants %s."
        logger.warning(message, older, habit, newer, wanted)


def replacing(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Let the decorated function stand in for `owner.name`, which it is given first.

    A method is replaced in the class that defines it, a function of a module wherever
    Keras has imported it to.
    """

    def decorate(stand_in: Callable[..., Any]) -> None:
        if isinstance(owner, ModuleType):
            patches = patches_everywhere(owner, name, around(stand_in), "keras.")
        else:
            patches = [Patch(defining(owner, name), name, around(stand_in))]
        for patch in patches:
            patch.install()

    return decorate


def known_by(module: ModuleType, names: Mapping[str, Any], habit: str) -> None:
    """Let a module answer to further names."""

    def find(name: str) -> Any:
        hint(habit)
        return names[name]

    answering(module, names, find).install()


def gone_module(package: str, name: str) -> ModuleType:
    """Return a module of a package that Keras no longer has, as its attribute."""
    dotted = f"{package}.{name}"
    try:
        return importlib.import_module(dotted)
    except ModuleNotFoundError as error:
        if error.name != dotted:
            raise
        text = f"module {package!r} has no attribute {name!r}"
        raise AttributeError(text) from None


_LIBRARIES = ("ipu_runtime", "keras", "numpy", "tensorflow")


def asked_by_script(or_by: str = "") -> bool:
    """Tell whether the attribute whose property calls this is read by a script."""
    reader = calling_module(2)
    return reader.partition(".")[0] not in _LIBRARIES or reader == or_by
