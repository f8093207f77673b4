"""What Keras does inside of `compile`, `fit` and `evaluate`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras.src.backend import compute_output_spec
from keras.src.utils import default, is_default

from ipu_runtime.frameworks.keras_api import keras

Logs = dict[str, Any]


def build_for_training(model: Any, data_batch: Any) -> None:
    """Build a model with its loss and metrics from types and shapes of a batch."""
    model._symbolic_build(data_batch=data_batch)


def build_for_inference(model: Any, symbols: Any) -> None:
    """Build a model from symbolic inputs."""
    compute_output_spec(model, symbols, training=False)


def compile_record(model: Any) -> Any:
    """Return an object that every `compile` makes anew; None before the first."""
    return getattr(model, "_compile_config", None)


def total_loss(
    model: Any, x: Any, y: Any, y_pred: Any, sample_weight: Any, training: bool
) -> Any:
    """Return the compiled loss and what layers have added to it."""
    return model._compute_loss(
        x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training
    )


def add_loss(model: Any, scope: Any, loss: Any) -> None:
    """Let a loss that a layer has made elsewhere count in a stateless scope."""
    # Keras looks losses up by identity, under the layer that added them.
    scope.add_loss(loss)
    model._loss_ids.add(id(loss))


def loss_tracker(model: Any) -> Any:
    """Return the metric that shows the mean loss."""
    return model._loss_tracker


def first_epoch(model: Any, initial_epoch: int) -> int:
    """Return the epoch to start with: a restored model's own comes first."""
    return int(model._initial_epoch or initial_epoch)


def validates_after(model: Any, epoch: int, validation_freq: Any) -> bool:
    """Whether an epoch is followed by a validation."""
    return bool(model._should_eval(epoch, validation_freq))


def metrics_in_order(model: Any, logs: Logs) -> Any:
    """Return metric values as `evaluate` returns them."""
    return model._flatten_metrics_in_order(logs)


def is_keras_default(method: Any) -> bool:
    """Whether a method is Keras' own, which it marks to notice overriding."""
    return bool(is_default(method))


def mark_keras_default(method: Any) -> None:
    """Let Keras take a method for its own."""
    default(method)


class ProgressBar(keras.callbacks.ProgbarLogger):
    """Keras' progress bar on what a function makes of the logs."""

    def __init__(self, shown: Callable[[Logs], Logs]) -> None:
        super().__init__()
        self._shown = shown

    def _update_progbar(self, batch: int, logs: Logs | None = None) -> None:
        super()._update_progbar(batch, self._shown(logs or {}))

    def _finalize_progbar(self, logs: Logs | None) -> None:
        super()._finalize_progbar(self._shown(logs or {}))
