"""What an extended model refuses before it runs anything."""

from __future__ import annotations

import tensorflow as tf

from ipu_runtime.frameworks.keras_api import keras
from ipu_runtime.frameworks.keras_calls import Functional
from ipu_runtime.frameworks.types import KerasModel
from ipu_runtime.keras.extensions.extension_state import state_of
from ipu_runtime.keras.optimizers.older_optimizers import refuse_older_hooks
from ipu_runtime.system.device_state import device_ordinal

_NEVER_OVERRIDDEN = {
    "fit": ("make_train_function", "train_step"),
    "evaluate": ("make_test_function",),
    "predict": ("make_predict_function",),
}
_NOT_IN_PIPELINES = {
    "fit": (),
    "evaluate": ("test_step",),
    "predict": ("predict_step",),
}


def check_runnable(model: KerasModel, method: str) -> None:
    """Raise if the model cannot be run by `fit`, `evaluate` or `predict` here."""
    _check_device(model)
    _check_not_eager(model, method)
    if method == "fit":
        # `compile` has asked already, if it was called inside of the strategy.
        refuse_older_hooks(getattr(model, "optimizer", None))
    for name in _NEVER_OVERRIDDEN[method]:
        if _overridden(model, name):
            raise RuntimeError(_override_message(model, name, "an IPU model"))
    if state_of(model).options.pipelined:
        for name in _NOT_IN_PIPELINES[method]:
            if _overridden(model, name):
                raise RuntimeError(_override_message(model, name, "a pipelined model"))
        if _call_overridden(model):
            raise RuntimeError(_override_message(model, "call", "a pipelined model"))
    if type(model).call is keras.Model.call:
        raise NotImplementedError(
            f"The model {model.name} ({type(model).__name__}) has no `call` method: "
            "a subclass of `keras.Model` must define one."
        )


def _check_device(model: KerasModel) -> None:
    strategy = state_of(model).strategy
    if strategy is None:
        return
    try:
        device_ordinal(strategy.ipu_device)
    except ValueError:
        raise ValueError(
            f"The model {model.name} was created under a strategy for "
            f"{strategy.ipu_device!r}: IPU models can only be used on an IPU device."
        ) from None


def _check_not_eager(model: KerasModel, method: str) -> None:
    if model.run_eagerly or tf.config.functions_run_eagerly():
        raise RuntimeError(
            f"Calling `{method}` with `run_eagerly=True` is not supported on the IPU: "
            "compile the model with `run_eagerly=False` and do not run functions "
            "eagerly."
        )


def _overridden(model: KerasModel, name: str) -> bool:
    return getattr(type(model), name) is not getattr(keras.Model, name)


def _call_overridden(model: KerasModel) -> bool:
    for kind in (keras.Sequential, Functional):
        if isinstance(model, kind):
            return type(model).call is not kind.call
    return False


def _override_message(model: KerasModel, name: str, kind: str) -> str:
    return (
        f"The function `{name}` for the model {model.name} ({type(model).__name__}) "
        f"has been overridden, which is not supported for {kind}. Remove it, or "
        "disable the extensions: IPUStrategy(enable_keras_extensions=False)."
    )
