"""Machines that do a command's work, for as long as it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from workbench.cluster.memory_need import CPUS, memory_need
from workbench.cluster.place import Place
from workbench.cluster.ray_cluster import cluster_facts, connected
from workbench.cluster.ray_instances import RayStarter
from workbench.cluster.shipped_files import ShippedFiles, shipped_files
from workbench.runs.run_context import RunControl


@dataclass(frozen=True, slots=True)
class Team:
    """A cluster that this process is connected to."""

    place: Place
    tell: Callable[[str], None]
    """Told once what is waited for."""
    files: ShippedFiles | None = None
    """What its machines were given; None if they see the files of this one."""

    def starter(self, control: RunControl, until: int = 0) -> RayStarter:
        """Return who starts the processes of one run, of all epochs or fewer."""
        return RayStarter(control, self.place, self.tell, self.files, until)

    def places(self, tables: Mapping[str, Any]) -> int:
        """Return how many runs of an experiment find room at once, at least one."""
        memory = memory_need(tables)
        return max(1, sum(node.places(CPUS, memory) for node in cluster_facts().nodes))


@contextmanager
def team_on(
    place: Place,
    experiments: Iterable[Mapping[str, Any]],
    tell: Callable[[str], None],
) -> Iterator[Team | None]:
    """Bring experiments' files and this project's code to a place; None: it is here."""
    told = set[str]()

    def once(text: str) -> None:
        if text not in told:
            told.add(text)
            tell(text)

    if place.is_here:
        yield None
    elif place.shares_files:
        with connected(place):
            yield Team(place, once)
    else:
        with shipped_files(experiments) as files, connected(place, files.directory):
            yield Team(place, once, files)
