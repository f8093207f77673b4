"""`gen_ipu_ops`: the operations of the plugin that scripts call directly."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ipu_runtime.reports.event_trace import take_events


def ipu_event_trace(name: str | None = None) -> Any:
    """Return the events since the last reading as a tensor of texts."""
    return tf.numpy_function(_events, [], tf.string, stateful=True, name=name)


def _events() -> Any:
    return np.array(take_events(), dtype=object)
