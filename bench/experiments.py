"""Presets, cut down to a size that can be measured several times."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from bench.side_by_side import Work
from workbench.data.dataset import PreparedData, load_prepared
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.overrides import apply_overrides
from workbench.experiment.preset_store import load_preset
from workbench.experiment.validation import validate


def experiment(preset: str, changes: Sequence[str] = ()) -> ExperimentSpec:
    """Return a preset with some fields changed."""
    tables, problems = apply_overrides(load_preset(preset).tables, list(changes))
    spec, more = validate(tables)
    assert spec is not None, (*problems, *more)
    return spec


def stock_fit(spec: ExperimentSpec, data: PreparedData) -> Work:
    """Return plain Keras `fit` on the CPU, with Keras' own defaults."""
    from workbench.runs.model_builder import build_keras_model, compile_arguments

    model = build_keras_model(spec)
    model.compile(**compile_arguments(spec))
    return _fit_preset(model, spec, data, nullcontext)


def emulated_fit(spec: ExperimentSpec, data: PreparedData) -> Work:
    """Return `fit` on the emulated device, with the preset's settings."""
    from ipu_runtime.config import config_from_fields
    from ipu_runtime.ipu_strategy import IPUStrategy
    from workbench.backends.ipu_strategy import compiled_model

    strategy = IPUStrategy()

    def configured() -> Any:
        config_from_fields(spec.ipu).configure_ipu_system()
        return strategy.scope()

    with configured():
        model = compiled_model(spec)
    return _fit_preset(model, spec, data, configured)


def _fit_preset(
    model: Any, spec: ExperimentSpec, data: PreparedData, scope: Callable[[], Any]
) -> Work:
    size, epochs = spec.data.batch_size, spec.train.epochs
    return timed_fit(model, data.train.x, data.train.y, size, epochs, scope)


def timed_fit(
    model: Any,
    x: Any,
    y: Any,
    batch_size: int,
    epochs: int = 1,
    scope: Callable[[], Any] = nullcontext,
) -> Work:
    """Return `fit` of a model, of which the time until training ends counts."""
    import keras

    class End(keras.callbacks.Callback):
        """Notes when training is over: stock `fit` may then wait for its data set."""

        at_s = 0.0

        def on_train_end(self, logs: Any = None) -> None:
            self.at_s = time.perf_counter()

    def fit() -> float:
        end, began = End(), time.perf_counter()
        with scope():
            model.fit(
                x,
                y,
                batch_size=batch_size,
                epochs=epochs,
                verbose=0,
                shuffle=False,
                callbacks=[end],
            )
        return end.at_s - began

    return fit


def prepared(spec: ExperimentSpec) -> PreparedData:
    """Load the data of an experiment."""
    return load_prepared(spec)
