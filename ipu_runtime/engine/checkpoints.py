"""Checkpoints of an estimator's model directory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def check_checkpoint(path: str, variables: Sequence[Any]) -> None:
    """Raise before anything is written if a checkpoint is of another model."""
    try:
        stored = tf.train.load_checkpoint(path).get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise ValueError(f"Checkpoint {path} cannot be read: {error}") from error
    missing = [v.op.name for v in variables if v.op.name not in stored]
    other = [
        f"{v.op.name} has shape {tuple(stored[v.op.name])} there and "
        f"{tuple(v.shape)} here"
        for v in variables
        if v.op.name in stored and tuple(stored[v.op.name]) != tuple(v.shape)
    ]
    if not missing and not other:
        return
    reasons = []
    if missing:
        reasons.append(f"it lacks {_some(missing)}")
    if other:
        reasons.append(_some(other))
    raise ValueError(
        f"Checkpoint {path} is of another model: {'; '.join(reasons)}. Nothing was "
        "changed; use another model_dir for this model."
    )


def _some(items: Sequence[str]) -> str:
    shown = ", ".join(items[:3])
    return f"{shown} and {len(items) - 3} more" if len(items) > 3 else shown
