"""`fit`, `evaluate` and `predict` of an extended model: what the mixins call."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.engine.build.programs.metric_results import Logs
from ipu_runtime.engine.describe.model_cache import cache_of, drop_programs
from ipu_runtime.engine.describe.model_call import ModelCall
from ipu_runtime.engine.describe.model_options import ModelOptions
from ipu_runtime.engine.feeds.feed import Feed, make_feed
from ipu_runtime.engine.run.batch_callbacks import callback_list
from ipu_runtime.engine.run.epoch import ModelRun
from ipu_runtime.engine.run.session import Session, open_session
from ipu_runtime.engine.watch.step_profile import IpuProfile
from ipu_runtime.frameworks.keras_api import tree, unpack_x_y_sample_weight
from ipu_runtime.frameworks.keras_data import split_for_validation
from ipu_runtime.frameworks.keras_training import (
    first_epoch,
    metrics_in_order,
    validates_after,
)
from ipu_runtime.frameworks.types import KerasModel
from ipu_runtime.system.device import Device
from ipu_runtime.system.instance_exchange import mean_over_instances

__all__ = ["drop_programs", "evaluate", "fit", "predict", "profile"]


def fit(
    model: KerasModel,
    options: ModelOptions,
    device: Device,
    *,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    epochs: int = 1,
    verbose: Any = "auto",
    callbacks: Any = None,
    validation_split: float = 0.0,
    validation_data: Any = None,
    shuffle: bool = True,
    class_weight: Any = None,
    sample_weight: Any = None,
    initial_epoch: int = 0,
    steps_per_epoch: int | None = None,
    validation_steps: int | None = None,
    validation_batch_size: int | None = None,
    validation_freq: Any = 1,
) -> Any:
    """Train; takes the keyword arguments of Keras `fit`, returns its History."""
    _check_compiled(model)
    if validation_split and validation_data is None:
        (x, y, sample_weight), validation_data = split_for_validation(
            (x, y, sample_weight), validation_split
        )
    _suggest_tensors(model, x)
    feed = make_feed(
        x,
        y,
        sample_weight,
        batch_size=batch_size,
        shuffle=bool(shuffle),
        class_weight=class_weight,
        infeed=options.infeed_kwargs,
    )
    session = open_session(
        ModelCall(model, options, device, "train", feed, steps_per_epoch, epochs)
    )
    validation = None
    if validation_data is not None:
        validation = _validation(
            model,
            options,
            device,
            validation_data,
            validation_steps,
            validation_batch_size or batch_size,
        )
    calls = callback_list(callbacks, model, verbose, epochs, session.count.steps)
    model.stop_training = False
    calls.on_train_begin()
    source, logs = None, {}
    run = ModelRun(session, calls, "fit", epochs)
    checks = None
    if validation is not None:
        checks = ModelRun(validation, calls, "validate", epochs)
    for epoch in range(first_epoch(model, initial_epoch), epochs):
        session.begin_epoch()
        calls.on_epoch_begin(epoch)
        if source is None or not session.count.continues:
            source = feed.source()
        outcome = run.epoch(source, epoch + 1)
        logs = _with_common_loss(outcome.logs, device)
        if outcome.stopped or outcome.exhausted:
            model.stop_training = True
        elif checks is not None and validates_after(model, epoch, validation_freq):
            results = _evaluate(checks, calls)
            logs |= {f"val_{name}": value for name, value in results.items()}
            checks.end_epoch(epoch + 1, results)
        run.end_epoch(epoch + 1, logs)
        calls.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    cache_of(model).profile = run.end(logs)
    if epochs > 0 and hasattr(model.optimizer, "finalize_variable_values"):
        model.optimizer.finalize_variable_values(model.trainable_weights)
    calls.on_train_end(logs=logs)
    return model.history


def evaluate(
    model: KerasModel,
    options: ModelOptions,
    device: Device,
    *,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    verbose: Any = "auto",
    sample_weight: Any = None,
    steps: int | None = None,
    callbacks: Any = None,
    return_dict: bool = False,
) -> Any:
    """Evaluate; takes the keyword arguments of Keras `evaluate`."""
    _check_compiled(model)
    feed = make_feed(
        x, y, sample_weight, batch_size=batch_size, infeed=options.infeed_kwargs
    )
    session = open_session(ModelCall(model, options, device, "test", feed, steps))
    calls = callback_list(callbacks, model, verbose, 1, session.count.steps)
    run = ModelRun(session, calls, "evaluate")
    logs = _evaluate(run, calls)
    cache_of(model).profile = run.end(logs)
    return logs if return_dict else metrics_in_order(model, logs)


def predict(
    model: KerasModel,
    options: ModelOptions,
    device: Device,
    *,
    x: Any,
    batch_size: int | None = None,
    verbose: Any = "auto",
    steps: int | None = None,
    callbacks: Any = None,
) -> Any:
    """Predict; takes the keyword arguments of Keras `predict`, returns arrays."""
    feed = make_feed(x, batch_size=batch_size, infeed=options.infeed_kwargs)
    session = open_session(ModelCall(model, options, device, "predict", feed, steps))
    calls = callback_list(callbacks, model, verbose, 1, session.count.steps)
    calls.on_predict_begin()
    run = ModelRun(session, calls, "predict")
    outcome = run.epoch(feed.source())
    cache_of(model).profile = run.end({})
    calls.on_predict_end()
    return tree.map_structure(
        lambda *pieces: np.concatenate(
            [piece.numpy().reshape(-1, *piece.shape[2:]) for piece in pieces]
        ),
        *outcome.outputs,
    )


def profile(model: KerasModel) -> IpuProfile:
    """Return the modelled step beside the measured one: `model.ipu_profile()`."""
    last = cache_of(model).profile
    if last is None:
        raise RuntimeError(
            "There is no profile yet: it comes from the last `fit`, `evaluate` or "
            "`predict`."
        )
    return last


def _check_compiled(model: KerasModel) -> None:
    """Raise if the model has not been compiled."""
    if not model.compiled:
        raise RuntimeError(
            "You must compile your model before training/testing. "
            "Use `model.compile(optimizer, loss)`."
        )


def _evaluate(run: ModelRun, calls: Any) -> Logs:
    calls.on_test_begin()
    run.session.begin_epoch()
    outcome = run.epoch(run.session.call.feed.source())
    calls.on_test_end(outcome.logs)
    return outcome.logs


def _with_common_loss(logs: Logs, device: Device) -> Logs:
    """Let all processes of a job see the same loss; metrics stay their own."""
    if device.instance.count == 1 or "loss" not in logs:
        return dict(logs)
    own = tf.constant(logs["loss"], tf.float64)
    (mean,) = mean_over_instances([own], device.instance)
    return {**logs, "loss": mean.numpy().tolist()}


def _validation(
    model: KerasModel,
    options: ModelOptions,
    device: Device,
    data: Any,
    steps: int | None,
    batch_size: int | None,
) -> Session:
    x, y, sample_weight = unpack_x_y_sample_weight(data)
    is_dataset = isinstance(x, tf.data.Dataset)
    feed: Feed = make_feed(
        x,
        y,
        sample_weight,
        batch_size=None if is_dataset else batch_size,
        infeed=options.infeed_kwargs,
    )
    return open_session(ModelCall(model, options, device, "test", feed, steps))


def _suggest_tensors(model: KerasModel, x: Any) -> None:
    cache = cache_of(model)
    if isinstance(x, np.ndarray):
        cache.fed_arrays += 1
        if cache.fed_arrays == 2:
            tf.get_logger().warning(
                "NumPy arrays are converted to tensors by every call: when they are "
                "used again, convert them once with `tf.convert_to_tensor`."
            )
