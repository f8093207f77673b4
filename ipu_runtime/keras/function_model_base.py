"""How models of SDK 1.4 run: a step is a weight update, so counts are multiplied."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.types import KerasModel, Optimizer
from ipu_runtime.keras.extensions.extension_state import state_of
from ipu_runtime.strategies.strategy_stack import current_strategy
from ipu_runtime.system.emulated_device import device_for

_UNSUPPORTED = (
    "validation_split",
    "validation_data",
    "class_weight",
    "sample_weight",
    "validation_steps",
    "validation_freq",
    "max_queue_size",
    "workers",
    "use_multiprocessing",
)


class FunctionModel:
    """What the four classes share."""

    def __init__(self, model: KerasModel, accumulation: int, pipelined: bool) -> None:
        self._model = model
        self._accumulation = accumulation
        self._pipelined = pipelined
        self._compiled: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """Name of the model."""
        return str(self._model.name)

    @property
    def layers(self) -> list[Any]:
        """The layers."""
        return list(self._model.layers)

    @property
    def weights(self) -> list[Any]:
        """The weights; a model without input shape has none before its first fit."""
        return list(self._model.weights)

    def get_weights(self) -> list[np.ndarray]:
        """Return the weights' values."""
        return list(self._model.get_weights())

    def set_weights(self, weights: SequenceOf[np.ndarray]) -> None:
        """Set the weights' values."""
        self._model.set_weights(weights)

    def summary(self, *args: Any, **kwargs: Any) -> None:
        """Print the layers."""
        self._model.summary(*args, **kwargs)

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise ValueError(
            "This model cannot be called directly: use fit, evaluate or predict."
        )

    def save(self, *_: Any, **__: Any) -> None:
        """Raise: these classes cannot be saved as a whole."""
        raise NotImplementedError("This model cannot be saved: use save_weights.")

    def save_weights(self, *args: Any, **kwargs: Any) -> None:
        """Write the weights."""
        self._model.save_weights(*args, **kwargs)

    def load_weights(self, *args: Any, **kwargs: Any) -> None:
        """Read the weights."""
        self._model.load_weights(*args, **kwargs)

    def compile(
        self,
        optimizer: Optimizer = "rmsprop",
        loss: Any = None,
        metrics: Any = None,
        loss_weights: Any = None,
        **kwargs: Any,
    ) -> None:
        """Set optimizer, loss and metrics."""
        self._compiled = {
            "optimizer": keras.optimizers.get(optimizer),
            "loss": loss,
            "metrics": metrics,
            "loss_weights": loss_weights,
            **kwargs,
        }

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        *,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = 1,
        callbacks: Any = None,
        shuffle: bool = True,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        steps_per_run: int | None = None,
        prefetch_depth: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Train; `steps_per_epoch` and `steps_per_run` count weight updates."""
        _refuse("fit", kwargs)
        return self._run(
            "fit",
            (x, y),
            (batch_size, steps_per_epoch, steps_per_run, prefetch_depth),
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            shuffle=shuffle,
            initial_epoch=initial_epoch,
        )

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        *,
        batch_size: int | None = None,
        verbose: Any = 1,
        steps: int | None = None,
        callbacks: Any = None,
        steps_per_run: int | None = None,
        prefetch_depth: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Evaluate; steps of a pipeline are as large as in training."""
        _refuse("evaluate", kwargs)
        sizes = (batch_size, steps, steps_per_run, prefetch_depth)
        return self._run(
            "evaluate", (x, y), sizes, verbose=verbose, callbacks=callbacks
        )

    def predict(
        self,
        x: Any,
        *,
        batch_size: int | None = None,
        verbose: Any = 0,
        steps: int | None = None,
        callbacks: Any = None,
        steps_per_run: int | None = None,
        prefetch_depth: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Predict; steps of a pipeline are as large as in training."""
        _refuse("predict", kwargs)
        sizes = (batch_size, steps, steps_per_run, prefetch_depth)
        return self._run(
            "predict", (x, None), sizes, verbose=verbose, callbacks=callbacks
        )

    def _run(
        self,
        method: str,
        data: tuple[Any, Any],
        sizes: tuple[int | None, int | None, int | None, int | None],
        **arguments: Any,
    ) -> Any:
        """Run the inner model; a step of `fit` and of a pipeline accumulates."""
        batch_size, steps, steps_per_run, prefetch_depth = sizes
        unit = self._accumulation if method == "fit" or self._pipelined else 1
        execution = unit * self._replicas() * (steps_per_run or 1)
        x, y = _trimmed(*data, batch_size, execution if steps is None else 1)
        parts = 1 if method == "predict" else 2
        batches = _batches(x, batch_size, steps, unit, parts)
        self._prepare(batches, steps_per_run, unit, prefetch_depth)
        if steps is not None:
            arguments["steps_per_epoch" if method == "fit" else "steps"] = batches
        if method != "predict":
            arguments["y"] = y
        return getattr(self._model, method)(x, batch_size=batch_size, **arguments)

    def _prepare(
        self, batches: int, steps_per_run: int | None, unit: int, depth: int | None
    ) -> None:
        """Compile the inner model for executions of `steps_per_run` steps."""
        if self._compiled is None:
            raise RuntimeError("You must compile your model before using it.")
        replicas = self._replicas()
        steps = batches // unit
        if steps_per_run and steps % (steps_per_run * replicas):
            raise ValueError(
                f"The number of steps ({steps}) must be divisible by steps_per_run "
                f"({steps_per_run}) times the number of replicas ({replicas})."
            )
        if depth is not None:
            self._model.set_infeed_queue_options(prefetch_depth=depth)
        per_run = steps_per_run or max(1, steps // replicas)
        self._model.compile(**self._compiled, steps_per_execution=per_run * unit)

    def _replicas(self) -> int:
        shards = state_of(self._model).options.shard_count
        return max(1, device_for(current_strategy(), shards).replicas(shards))


def _refuse(method: str, kwargs: dict[str, Any]) -> None:
    for name in kwargs:
        if name in _UNSUPPORTED:
            raise NotImplementedError(f"{method}: `{name}` is not supported.")
        raise TypeError(f"{method}() got an unexpected keyword argument {name!r}")


def _trimmed(x: Any, y: Any, batch_size: int | None, unit: int) -> tuple[Any, Any]:
    """Drop what fills no batch, and no `unit` of them; data sets are left alone."""
    if isinstance(x, tf.data.Dataset):
        if batch_size is not None:
            raise ValueError("`batch_size` must not be given with a Dataset.")
        return x, y
    size = batch_size or 32
    batches = keras.tree.flatten(x)[0].shape[0] // size
    kept = batches // unit * unit
    if batches and not kept:
        raise ValueError(
            f"The number of mini-batches ({batches}) must be at least {unit}: the "
            "gradient accumulation count times the number of replicas and "
            "steps_per_run."
        )
    if kept < batches:
        tf.get_logger().warning(
            "%d of %d batches are dropped, because an execution of all replicas takes "
            "a multiple of %d.",
            batches - kept,
            batches,
            unit,
        )

    def cut(value: Any) -> Any:
        return keras.tree.map_structure(lambda array: array[: kept * size], value)

    return cut(x), None if y is None else cut(y)


def _batches(
    x: Any, batch_size: int | None, steps: int | None, unit: int, elements: int
) -> int:
    """Return the batches of an epoch; a step has `unit` of them."""
    if steps is not None:
        return steps * unit
    if isinstance(x, tf.data.Dataset):
        spec = x.element_spec
        found = len(spec) if isinstance(spec, tuple) else 1
        if found != elements:
            raise ValueError(f"The Dataset must have {elements} parts, not {found}.")
        batches = int(x.cardinality())
        if batches < 0:
            raise ValueError("The number of steps must be given for this Dataset.")
    else:
        return int(keras.tree.flatten(x)[0].shape[0]) // (batch_size or 32)
    if batches % unit:
        raise ValueError(
            f"The number of mini-batches ({batches}) must be a multiple of the "
            f"gradient accumulation count ({unit})."
        )
    return batches
