"""The seam between the runner and the backends that execute an experiment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ipu_runtime.system.instances import Instance
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.runs.events import Event

if TYPE_CHECKING:
    # The app draws its first frame before it loads numpy.
    from ipu_runtime.plan.plan import Plan


class InstanceFailure(Exception):
    """A process of the run is lost or has failed; the text is fit for the user."""


class NoMachines(InstanceFailure):
    """There was no room for a run's processes, which is no fault of the run."""


@dataclass(frozen=True)
class RunControl:
    """How whoever started a run stops or pauses it, from any thread."""

    stop: threading.Event = field(default_factory=threading.Event)
    _resumed: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._resumed.set()

    def pause(self) -> None:
        """Let the run wait at the next piece of work."""
        self._resumed.clear()

    def resume(self) -> None:
        """Let a paused run go on."""
        self._resumed.set()

    @property
    def paused(self) -> bool:
        """Whether the run waits, or will at the next piece of work."""
        return not self._resumed.is_set()

    def should_stop(self) -> bool:
        """Wait while paused, then tell whether to stop; asked by the run's thread."""
        while not self._resumed.wait(timeout=0.1):
            if self.stop.is_set():
                return True
        return self.stop.is_set()


@dataclass(frozen=True)
class RunContext:
    """What a backend gets besides the experiment."""

    emit: Callable[[Event], None]
    control: RunControl
    directory: Path
    """The run's record; checkpoints go below it."""
    plan: Plan
    """What was modelled for the run; backends without a device show its figures."""
    first_epoch: int = 1
    """Later than 1 when a run is resumed."""
    checkpoint: Path | None = None
    """What to start from, for a resumed run."""
    instance: Instance = field(default_factory=Instance)
    """This process among those that train together."""


class Backend(Protocol):
    """One way to execute an experiment; events go to `context.emit`."""

    def __call__(self, spec: ExperimentSpec, context: RunContext) -> None: ...
