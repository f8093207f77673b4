"""TensorFlow functions as the engine uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_runtime.frameworks.tensorflow_graphs import without_tracing_warning


def traced(function: Callable[..., Any], **options: Any) -> Any:
    """Return a TensorFlow function of Python code that needs no conversion.

    TensorFlow counts tracing by lines of code, so that many models in one process
    would look like one that is traced again and again: the warning is left out.
    """
    return without_tracing_warning(tf.function(function, autograph=False, **options))
