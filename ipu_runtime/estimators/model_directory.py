"""Checkpoints of an estimator's model directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.replica_variables import is_random_state


def model_saver(path: str | None, **options: Any) -> Any:
    """Return a saver of the current graph's variables that can restore `path`.

    Raises before anything is written if that checkpoint is of another model. Random
    states do not make a model: one mode may have a Dropout layer that another lacks.
    """
    if not path:
        return tf.compat.v1.train.Saver(**options)
    variables = tf.compat.v1.global_variables()
    stored = _stored_shapes(path)
    check_checkpoint(path, variables)
    fresh = [item for item in variables if item.op.name not in stored]
    return _PartialSaver(fresh, **options) if fresh else model_saver(None, **options)


class _PartialSaver(tf.compat.v1.train.Saver):
    """Saves everything, and initializes what the checkpoint to restore lacks."""

    def __init__(self, fresh: Sequence[Any], **options: Any) -> None:
        super().__init__(**options)
        names = {item.op.name for item in fresh}
        self._rest = tf.compat.v1.train.Saver(
            [i for i in tf.compat.v1.global_variables() if i.op.name not in names]
        )
        self._start = tf.compat.v1.variables_initializer(fresh)

    def restore(self, sess: Any, save_path: str) -> None:
        """Give every variable a value."""
        sess.run(self._start)
        self._rest.restore(sess, save_path)


def _stored_shapes(path: str) -> dict[str, Any]:
    try:
        return dict(tf.train.load_checkpoint(path).get_variable_to_shape_map())
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise ValueError(f"Checkpoint {path} cannot be read: {error}") from error


def check_checkpoint(path: str, variables: Sequence[Any]) -> None:
    """Raise if a checkpoint is of another model."""
    stored = _stored_shapes(path)
    missing = [
        item.op.name
        for item in variables
        if item.op.name not in stored and not is_random_state(item.op.name)
    ]
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


def newest_checkpoint(model_dir: str) -> str | None:
    """Return the newest checkpoint of a directory; None only if there is none.

    `tf.train.latest_checkpoint` also says None where it cannot read just now, and what
    follows would be evaluated, or trained, from values that nobody has trained.

    Raises:
        tf.errors.OpError: It is there and cannot be read.
    """
    path = tf.train.latest_checkpoint(model_dir)
    state = os.path.join(model_dir, "checkpoint")
    if path is None and tf.io.gfile.exists(state):
        with tf.io.gfile.GFile(state) as stream:
            stream.read()
        path = tf.train.latest_checkpoint(model_dir)
    return path
