"""Write a trained estimator's model for serving."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def export_saved_model(
    base: str, receiver: Any, outputs: Any, checkpoint: str
) -> bytes:
    """Write the current graph with a checkpoint's values to a new directory."""
    directory = _new_directory(Path(base))
    inputs = receiver.receiver_tensors
    with v1.Session() as session:
        v1.train.Saver().restore(session, checkpoint)
        v1.saved_model.simple_save(
            session,
            str(directory),
            inputs if isinstance(inputs, dict) else {"input": inputs},
            outputs if isinstance(outputs, dict) else {"output": outputs},
        )
    return str(directory).encode()


def _new_directory(base: Path) -> Path:
    """Return a path named by the time, later than any that is there."""
    stamp = int(time.time())
    while (base / str(stamp)).exists():
        stamp += 1
    return base / str(stamp)
