"""Checkpoints: everything that a run needs to go on as if it had never stopped.

A checkpoint is an `.npz` file of plain arrays, written beside its place and renamed,
so that a run that is killed leaves the one before it whole.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ipu_runtime.datasets.machine_memory import memory_bytes
from ipu_runtime.datasets.unreadable import UNREADABLE
from ipu_runtime.plan.plain_data import plain
from workbench.store_files import (
    all_names_in,
    make_directory,
    read_file,
    remove_file,
    replace_file,
)
from workbench.store_json import RecordError, explained, readable

Array = npt.NDArray[Any]

_FORMAT = 1
KEPT = 2
"""Checkpoints that a run leaves behind: the newest may be damaged."""
_MOST_ABOUT_BYTES = 16 * 2**20
_NAME = re.compile(r"epoch-(\d{6,})(?:-step-(\d{6,}))?\.npz")
_WEIGHT, _OPTIMIZER, _RUNNING = "weight", "optimizer", "running"


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """The state of a run at the end of an epoch, or inside one."""

    epoch: int
    """Epochs that are done."""
    weights: tuple[Array, ...]
    optimizer: tuple[Array, ...]
    """Variables of the optimizer, its step counter and learning rate among them."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What else the backend needs, as JSON values."""
    metrics: tuple[Mapping[str, Any], ...] = ()
    """What the epochs so far have ended with."""
    step: int = 0
    """Steps that are done of the next epoch."""
    running: tuple[Array, ...] = ()
    """What these steps have come to: metrics, and statistics of every replica."""

    @property
    def file_name(self) -> str:
        """Name that tells how far the run has come."""
        inside = f"-step-{self.step:06}" if self.step else ""
        return f"epoch-{self.epoch:06}{inside}.npz"


def save(directory: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint and remove those that are no longer needed."""
    about = {
        "format": _FORMAT,
        "epoch": checkpoint.epoch,
        "weights": len(checkpoint.weights),
        "optimizer": len(checkpoint.optimizer),
        "extra": checkpoint.extra,
        "metrics": checkpoint.metrics,
        "step": checkpoint.step,
        "running": len(checkpoint.running),
    }
    arrays = {
        "about": np.frombuffer(json.dumps(plain(about)).encode(), dtype=np.uint8),
        **_numbered(_WEIGHT, checkpoint.weights),
        **_numbered(_OPTIMIZER, checkpoint.optimizer),
        **_numbered(_RUNNING, checkpoint.running),
    }
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    path = directory / checkpoint.file_name
    with explained(path):
        make_directory(directory, exist_ok=True)
        replace_file(path, content.getvalue())
        for older in _by_age(directory)[KEPT:]:
            remove_file(older)
    return path


def load(path: Path) -> Checkpoint:
    """Read a checkpoint; damaged ones are refused, never half read."""
    try:
        content = read_file(path, memory_bytes())
        _check_sizes(content)
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            about = json.loads(bytes(arrays["about"]))
            for name in ("epoch", "step"):
                if type(about.setdefault(name, 0)) is not int or about[name] < 0:
                    raise ValueError(f"{name} {about[name]!r}")
            return Checkpoint(
                epoch=about["epoch"],
                weights=_all(arrays, _WEIGHT, about["weights"]),
                optimizer=_all(arrays, _OPTIMIZER, about["optimizer"]),
                extra=dict(about["extra"]),
                metrics=tuple(dict(row) for row in about["metrics"]),
                step=about["step"],
                running=_all(arrays, _RUNNING, about.get("running", 0)),
            )
    except UNREADABLE as error:
        raise RecordError(f"{path} is not a readable checkpoint: {error}") from error


def _check_sizes(content: bytes) -> None:
    """Refuse what grows: our checkpoints are not packed, others could hold anything."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
    sizes = {member.filename: member.file_size for member in members}
    if sum(sizes.values()) > len(content):
        raise ValueError("it holds more than its own size")
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("it is packed")
    if sizes["about.npy"] > _MOST_ABOUT_BYTES:
        raise ValueError("about is larger than any")


def latest(directory: Path) -> Path | None:
    """Return the newest checkpoint that can be read; None if there is none."""
    for path in _by_age(directory):
        try:
            load(path)
        except RecordError:
            continue
        return path
    return None


def place_of(path: Path | None) -> tuple[int, int]:
    """Return the epoch with which a run goes on, and the steps it has of that."""
    if path is None:
        return 1, 0
    checkpoint = load(path)
    return checkpoint.epoch + 1, checkpoint.step


def keras_state(model: Any) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return the values of a compiled Keras model and of its optimizer."""
    values = (item.numpy() for item in _variables(model))
    optimizer = (item.numpy() for item in model.optimizer.variables)
    return tuple(map(np.asarray, values)), tuple(map(np.asarray, optimizer))


def restore_keras(model: Any, checkpoint: Checkpoint) -> None:
    """Put a checkpoint's values into a compiled Keras model of the same shape."""
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
    for what, variables, values in (
        ("weights", _variables(model), checkpoint.weights),
        ("optimizer values", model.optimizer.variables, checkpoint.optimizer),
    ):
        _check(what, [variable.shape for variable in variables], values)
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def _variables(model: Any) -> list[Any]:
    # The states of random generators are among those that are not trained.
    return [*model.trainable_variables, *model.non_trainable_variables]


def _check(what: str, wanted: Sequence[Any], held: Sequence[Array]) -> None:
    shapes = [tuple(shape) for shape in wanted]
    held_shapes = [item.shape for item in held]
    if shapes == held_shapes:
        return
    if len(shapes) != len(held_shapes):
        reason = f"it holds {len(held_shapes)} arrays, the model has {len(shapes)}"
    else:
        place = next(
            i
            for i, pair in enumerate(zip(shapes, held_shapes, strict=True))
            if pair[0] != pair[1]
        )
        reason = f"array {place} is {held_shapes[place]}, the model's {shapes[place]}"
    raise RecordError(f"the checkpoint's {what} do not fit the model: {reason}")


def _numbered(prefix: str, arrays: Sequence[Array]) -> dict[str, Array]:
    return {f"{prefix}{i:05}": np.asarray(item) for i, item in enumerate(arrays)}


def _all(arrays: Any, prefix: str, count: int) -> tuple[Array, ...]:
    return tuple(arrays[f"{prefix}{index:05}"] for index in range(count))


def _by_age(directory: Path) -> list[Path]:
    """Return the checkpoints, newest first; anything else is left alone."""
    with readable(directory):
        names = all_names_in(directory)
    matches = filter(None, map(_NAME.fullmatch, names))
    places = [
        (int(match[1]), int(match[2] or 0), directory / match[0]) for match in matches
    ]
    return [path for *_, path in sorted(places, reverse=True)]
