"""Compiled programs stay with their model until it is compiled anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ipu_runtime.engine.device import Device
from ipu_runtime.engine.keras_reader import ReadModel
from ipu_runtime.engine.programs import Programs

_KEPT = "_ipu_programs"


@dataclass
class Kept:
    """What stays with a model between calls."""

    compiled: Any = None
    """Keras' record of the `compile` that the programs belong to."""
    programs: dict[tuple[Any, ...], Programs] = field(default_factory=dict)
    profile: Any = None
    warned_of_statistics: bool = False
    fed_arrays: int = 0
    """Calls that were given NumPy arrays."""


def kept_of(model: Any) -> Kept:
    """Return what stays with the model; Keras must not track it."""
    kept: Kept = vars(model).setdefault(_KEPT, Kept())
    return kept


def drop_programs(model: Any) -> None:
    """Forget compiled programs, because options or the assignment changed."""
    kept_of(model).programs.clear()


def programs_of(
    model: Any, read: ReadModel | None, replicas: int, device: Device, phase: str
) -> Programs:
    """Return the programs of a model for a device, kept or new."""
    kept = kept_of(model)
    compiled = getattr(model, "_compile_config", None)
    if kept.compiled is not compiled:
        kept.compiled = compiled
        kept.programs.clear()
    key = (phase == "predict", replicas, device.seed, device.loss_scale_replicas)
    if key not in kept.programs:
        kept.programs[key] = Programs(model, read, replicas, device)
    return kept.programs[key]
