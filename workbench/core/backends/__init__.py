"""Ways to execute an experiment, by `execution.api`; each is loaded when used."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager

from workbench.core.run_context import Backend

BACKENDS = {
    "cpu": "workbench.core.backends.cpu",
    "ipu_strategy": "workbench.core.backends.ipu_strategy",
    "ipu_estimator": "workbench.core.backends.ipu_estimator",
    "ipu_pipeline_estimator": "workbench.core.backends.ipu_pipeline_estimator",
}
"""The module whose function `train(spec, context)` executes an interface."""


def backend_of(api: str) -> Backend:
    """Return the function that executes experiments of an interface."""
    # Late, because backends load TensorFlow.
    with _without_collecting():
        backend: Backend = importlib.import_module(BACKENDS[api]).train
    _use_keras_defaults()
    return backend


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Keep what is loaded inside out of garbage collection for good.

    TensorFlow leaves some 280,000 objects; going through them holds every thread for
    a quarter of a second, and a screen beside the run would feel stuck.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


def _use_keras_defaults() -> None:
    """Let nothing but the experiment decide: a user's keras.json may say otherwise."""
    import keras

    keras.config.set_floatx("float32")
    keras.config.set_epsilon(1e-7)
    keras.config.set_image_data_format("channels_last")
