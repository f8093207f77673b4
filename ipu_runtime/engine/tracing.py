"""TensorFlow functions as the engine uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def traced(function: Callable[..., Any], **options: Any) -> Any:
    """Return a TensorFlow function of Python code that needs no conversion.

    TensorFlow counts tracing by lines of code, so that many models in one process
    would look like one that is traced again and again: the warning is left out.
    """
    made = tf.function(function, autograph=False, **options)
    made._omit_frequent_tracing_warning = True
    return made
