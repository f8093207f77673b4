"""Ways to execute an experiment, by `execution.api`; each is loaded when used."""

from __future__ import annotations

import importlib
import sys
from contextlib import nullcontext

from ipu_runtime.system.garbage import frozen_from_collection
from workbench.runs.run_context import Backend

BACKENDS = {
    "cpu": "workbench.backends.cpu",
    "ipu_strategy": "workbench.backends.ipu_strategy",
    "ipu_estimator": "workbench.backends.ipu_estimator",
    "ipu_pipeline_estimator": "workbench.backends.ipu_pipeline_estimator",
}
"""The module whose function `train(spec, context)` executes an interface."""


def backend_of(api: str) -> Backend:
    """Return the function that executes experiments of an interface."""
    name = BACKENDS[api]
    # What a run leaves must not be kept for good by the next, which loads nothing.
    with nullcontext() if name in sys.modules else frozen_from_collection():
        # Late, because backends load TensorFlow.
        backend: Backend = importlib.import_module(name).train
    _use_keras_defaults()
    return backend


def _use_keras_defaults() -> None:
    """Let nothing but the experiment decide: a user's keras.json may say otherwise."""
    import keras

    keras.config.set_floatx("float32")
    keras.config.set_epsilon(1e-7)
    keras.config.set_image_data_format("channels_last")
