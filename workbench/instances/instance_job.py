"""What the processes of a run are started with."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ipu_runtime.system.instances import instance_of
from workbench.runs.event_json import to_line

COMMAND = (sys.executable, "-P", "-m", "workbench.instances.instance_process")
"""An instance: reads its order and commands from its input, answers in lines of JSON
on its output, and writes all else to its standard error."""


@dataclass(frozen=True, slots=True)
class InstanceJob:
    """A run that is shared out among processes."""

    tables: Mapping[str, Any]
    """The experiment, as in a record."""
    instances: int
    hosts: int
    replicas: int
    """Of all instances."""
    ipus_per_replica: int
    directory: Path
    """The run's record on this machine."""
    first_epoch: int = 1
    checkpoint: str = ""
    """File in the record's `checkpoints` that all instances go on from."""

    def environment(self, index: int) -> dict[str, str]:
        """Return what tells an instance which one it is."""
        return instance_of(
            index,
            self.instances,
            self.replicas,
            self.ipus_per_replica,
            self.instances // self.hosts,
        ).environment

    def order(self, directory: Path | None = None) -> str:
        """Return the first line for an instance.

        Args:
            directory: The record, or what stands for it on another machine: the
                instance reads `checkpoints/` there, and instance 0 writes to it.
        """
        return to_line(
            {
                "spec": self.tables,
                "directory": str(directory or self.directory),
                "first_epoch": self.first_epoch,
                "checkpoint": self.checkpoint,
            }
        )

    def log(self, index: int) -> Path:
        """Return the file of the record for what an instance writes."""
        return self.directory / "instances" / f"{index}.log"
