"""An experiment: everything that decides what a run does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ipu_runtime.plan.model_spec import LayerSpec


@dataclass(frozen=True, slots=True)
class Figure:
    """What the source document prints for one epoch."""

    epoch: int
    loss: float | None = None
    accuracy: float | None = None
    step_us: float | None = None
    """Time per step as printed, in microseconds."""
    seconds: float | None = None
    """Time of the epoch as printed."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """`[experiment]`: what it is and where it comes from."""

    name: str
    title: str
    teaches: str
    group: str
    source: str
    seed: int
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class Data:
    """`[data]`: the samples and how they are cut into batches."""

    dataset: str
    batch_size: int
    preparation: str
    labels: str
    shuffle: bool
    train_samples: int
    test_samples: int


@dataclass(frozen=True, slots=True)
class Model:
    """`[model]`: the layers, blocks already repeated."""

    dtype: str
    layers: tuple[LayerSpec, ...]


@dataclass(frozen=True, slots=True)
class Train:
    """`[train]`: optimizer, loss and how long."""

    optimizer: str
    learning_rate: float
    momentum: float
    loss: str
    epochs: int
    steps_per_epoch: int
    evaluate: bool
    test_only: bool
    on_nonfinite: str


@dataclass(frozen=True, slots=True)
class Execution:
    """`[execution]`: which interface runs it, and in what portions."""

    api: str
    steps_per_execution: int | str
    gradient_accumulation: int
    accumulation_reduction: str
    metric_reduction: str
    system: str
    model_dir: str


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`[pipeline]`: how the layers are shared out among IPUs."""

    stages: tuple[int, ...]
    schedule: str
    recomputation: str
    device_mapping: tuple[int, ...]
    offload_activations: bool
    locked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExperimentSpec:
    """A whole experiment, valid as a whole."""

    experiment: Experiment
    data: Data
    model: Model
    train: Train
    execution: Execution
    pipeline: Pipeline
    ipu: Mapping[str, Any] = field(default_factory=dict)
    """IPUConfig fields by dotted path; what is not in it has its default."""
