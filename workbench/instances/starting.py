"""The seam between a run and whoever starts its instances, here or elsewhere."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from workbench.instances.instance_job import InstanceJob


@dataclass(frozen=True, slots=True)
class Said:
    """An instance has written a line."""

    instance: int
    line: str


@dataclass(frozen=True, slots=True)
class Left:
    """An instance is gone."""

    instance: int
    code: int
    """Its exit code; 128 plus the signal's number if it was killed."""


class RunningInstances(Protocol):
    """Instances that were started; used by one thread."""

    def tell(self, instance: int, line: str) -> None:
        """Write a line to an instance's input; one that is gone hears nothing."""

    def heard(self, timeout_s: float) -> Said | Left | None:
        """Return what came next from any of them; None if nothing does in time."""


class InstanceStarter(Protocol):
    """Starts `COMMAND` once for every instance of a job, with its environment."""

    def __call__(self, job: InstanceJob) -> AbstractContextManager[RunningInstances]:
        """Start all and give them their order; none is left when the context ends.

        What instances write to their standard error goes to `job.log(index)`. A starter
        on other machines brings `checkpoints/` there, and back when instance 0 writes.
        """
