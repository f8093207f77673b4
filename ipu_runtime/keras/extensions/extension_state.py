"""What an extended model knows besides Keras' own attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ipu_runtime.engine.describe.model_options import ModelOptions
from ipu_runtime.keras.extensions.pipeline_stage_assignment import Assignment
from ipu_runtime.reports.program_report import ProgramReport

if TYPE_CHECKING:
    from ipu_runtime.ipu_strategy import IPUStrategyV1

_STATE = "_ipu_state"


@dataclass
class ExtensionState:
    """Kept apart from Keras, which would track and wrap lists and dictionaries."""

    strategy: IPUStrategyV1 | None = None
    """The strategy under which the model was created."""
    options: ModelOptions = field(default_factory=ModelOptions)
    assignment: list[Assignment] | None = None
    """What was set or read from tags; None: the model is not pipelined."""
    network: Any = None
    """The traced layer calls of a subclassed model."""
    known_plain: bool = False
    """Whether a subclassed model is known to enter no pipeline stage."""
    pending: list[Any] | None = None
    """A saved assignment that waits until a subclassed model is built."""
    reports: dict[str, ProgramReport] = field(default_factory=dict)
    """The report of the last program of each kind."""


def state_of(model: Any) -> ExtensionState:
    """Return the state of an extended model."""
    state: ExtensionState = vars(model).setdefault(_STATE, ExtensionState())
    return state
