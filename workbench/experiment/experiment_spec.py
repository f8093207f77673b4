"""An experiment: everything that decides what a run does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ipu_runtime.plan.model.model_spec import LayerSpec

if TYPE_CHECKING:
    from workbench.data.dataset_facts import DatasetFacts
    from workbench.models.model_source import ModelSource
    from workbench.models.source_model import SourceModel


@dataclass(frozen=True, slots=True)
class Figure:
    """What the source document prints for one epoch."""

    epoch: int
    loss: float | None = None
    accuracy: float | None = None
    step_us: float | None = None
    """Time per batch as printed (the document's step), in microseconds."""
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
    label_column: str = "label"
    test_share: float = 0.2
    content: str = ""
    """A text that changes with the code of a function that gives the data."""
    read: DatasetFacts | None = None
    """What it gave when it was read."""


@dataclass(frozen=True, slots=True)
class Model:
    """`[model]`: the layers, blocks already repeated, or a source that has them."""

    dtype: str
    layers: tuple[LayerSpec, ...]
    """Those of a source are what was read from it."""
    source: str = ""
    """Where the model comes from, if it is not made of the layers."""
    input_shape: tuple[int, ...] = ()
    classes: int = 0
    content: str = ""
    """A text that changes with what the source holds."""
    runs_code: bool = False
    """Whether code runs that is the user's: a function, or what a file holds."""
    read: SourceModel | None = None
    """What was read from the source."""

    @property
    def model_source(self) -> ModelSource:
        """The source with what it is asked to be."""
        # Late, because few experiments have one.
        from workbench.models.model_source import parse_source

        return parse_source(self.source, self.input_shape, self.classes, self.dtype)


@dataclass(frozen=True, slots=True)
class Train:
    """`[train]`: optimizer, loss and how long."""

    optimizer: str
    learning_rate: float
    momentum: float
    loss: str
    losses: tuple[str, ...]
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
    instances: int
    hosts: int
    model_dir: str
    checkpoint_every_s: float


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`[pipeline]`: how the layers are shared out among IPUs."""

    stages: tuple[int, ...]
    schedule: str
    recomputation: str
    device_mapping: tuple[int, ...]
    offload_activations: bool
    offload_weight_update_variables: bool
    replicated_optimizer_state_sharding: bool
    offload_gradient_accumulation_buffers: bool
    replicated_weight_sharding: bool
    offload_weights: bool
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
