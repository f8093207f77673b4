"""Processes of a run on the machines of a Ray cluster."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ipu_runtime.datasets.machine_memory import memory_bytes
from ipu_runtime.popdist.launched_job import cluster_environments
from ipu_runtime.system.ring_sockets import PublicAddressError
from workbench.cluster.hosted_process import News
from workbench.cluster.memory_need import CPUS, memory_need
from workbench.cluster.place import Place
from workbench.cluster.ray_cluster import answered, require_ray
from workbench.cluster.ray_processes import (
    end_processes,
    follow,
    hosted_process,
)
from workbench.cluster.room import lack_of_room, reserved
from workbench.cluster.shipped_files import ShippedFiles
from workbench.instances.instance_job import COMMAND, InstanceJob
from workbench.instances.starting import Left, Said
from workbench.runs.run_context import InstanceFailure, RunControl
from workbench.store_files import (
    files_below,
    make_directories,
    make_directory,
    open_to_append,
    read_file,
    remove_file,
    replace_file,
)
from workbench.store_json import RecordError, explained

_LOOK_EVERY_S = 0.2
_STOPPING_S = 4.0
_ROOM_EVERY_S = 2.0
_SILENCE_S = 15.0
"""Processes tell every second that they live."""
_KILLED = 128
"""Exit codes from here on are signals: the process did not end by itself."""


class RayStarter:
    """Starts the processes of one run on a cluster; an `InstanceStarter`.

    Args:
        control: Of the run; it may be stopped while it waits for room.
        place: Of the cluster.
        tell: Told what is waited for.
        files: What workers were given, None if they see the files of this machine.
        until: Epoch after which they end, 0 for the last. They would be well into the
            next one before they could be told to stop.
    """

    def __init__(
        self,
        control: RunControl,
        place: Place,
        tell: Callable[[str], None],
        files: ShippedFiles | None = None,
        until: int = 0,
    ) -> None:
        self._control, self._files, self._until = control, files, until
        self._place, self._tell = place, tell
        self.lost = False
        """Whether a process or its machine went away, so that another try may help."""
        self.alone = False
        """Whether no machine is left that could take the run, which is not to blame."""
        self._job: InstanceJob | None = None

    @contextmanager
    def __call__(self, job: InstanceJob) -> Iterator[_RayInstances]:
        """Find room, start all, and end them with the context."""
        self._job = job
        processes: list[Any] = []
        with reserved(job, self._control, self._place.wait_s, self._tell) as group:
            try:
                processes = _placed(job, group)
                self._start(job, processes)
                yield _RayInstances(self, job, processes)
            finally:
                answered(partial(end_processes, processes))

    def _start(self, job: InstanceJob, processes: list[Any]) -> None:
        places = self._wait_for(job, [process.place.remote() for process in processes])
        addresses = [address for address, _ in places]
        try:
            cluster = cluster_environments(addresses, self._place.network_allowed)
        except PublicAddressError as error:
            raise InstanceFailure(str(error)) from error
        kept = require_ray().put(_files_below(job.directory, "checkpoints"))
        shipped = dict(self._files.environment) if self._files is not None else {}
        moved = replace(job, tables=self._tables(job))
        self._wait_for(
            job,
            [
                process.start.remote(
                    COMMAND[1:],
                    job.environment(index) | cluster[index] | shipped,
                    kept,
                    moved.order(Path(directory)),
                )
                for index, (process, (_, directory)) in enumerate(
                    zip(processes, places, strict=True)
                )
            ],
        )

    def _tables(self, job: InstanceJob) -> dict[str, Any]:
        """Return the experiment as it is to be done there."""
        tables = dict(job.tables)
        if self._files is not None:
            tables = self._files.relocated(tables)
        if self._until:
            less = {"epochs": self._until, "evaluate": False}
            tables["train"] = {**tables["train"], **less}
        return tables

    def _wait_for(self, job: InstanceJob, wanted: list[Any]) -> list[Any]:
        """Return what is computed elsewhere, unless the run is stopped before."""
        ray = require_ray()
        looked_at = time.monotonic()
        while not self._control.should_stop():
            if time.monotonic() > looked_at + _ROOM_EVERY_S:
                # Ray does not say that the machine is gone before a process is there.
                if lack := lack_of_room(job):
                    raise self.loss(TimeoutError(lack))
                looked_at = time.monotonic()
            _, missing = ray.wait(
                wanted, num_returns=len(wanted), timeout=_LOOK_EVERY_S
            )
            if not missing:
                break
        else:
            # A run that is interrupted before it begins can be resumed.
            raise KeyboardInterrupt
        try:
            values: list[Any] = ray.get(wanted)
        except ray.exceptions.RayError as error:
            raise self.loss(error) from error
        return values

    @property
    def is_stopped(self) -> bool:
        """Whether whoever started the run wants it to end."""
        return self._control.stop.is_set()

    def loss(self, error: Exception) -> BaseException:
        """Return what to raise when Ray has lost a process or its machine."""
        if self.is_stopped:
            # Whatever ended them, it was to end.
            return KeyboardInterrupt()
        self.lost = True
        self.alone = self._job is not None and bool(lack_of_room(self._job))
        said = str(error).strip().partition("\n")[0]
        return InstanceFailure(
            f"the cluster has lost a process of the run ({said}), which can be resumed"
        )


class _RayInstances:
    """Processes on other machines, each asked by a thread what is new."""

    def __init__(
        self, starter: RayStarter, job: InstanceJob, processes: list[Any]
    ) -> None:
        self._starter, self._job, self._processes = starter, job, processes
        self._came: queue.SimpleQueue[Said | Left | Exception] = queue.SimpleQueue()
        self._heard_at = time.monotonic()
        self._stop_by = math.inf
        for index, process in enumerate(processes):
            follow(process, partial(self._tell, index), self._came.put)

    def tell(self, instance: int, line: str) -> None:
        """Write a line to an instance's input; one that is gone hears nothing."""
        self._processes[instance].tell.remote(line)

    def heard(self, timeout_s: float) -> Said | Left | None:
        """Return what came next from any of them; None if nothing does in time."""
        try:
            came = self._came.get(timeout=timeout_s)
        except queue.Empty:
            self._check_patience()
            return None
        self._heard_at = time.monotonic()
        if isinstance(came, RecordError):
            raise came
        if isinstance(came, Exception):
            raise self._starter.loss(came) from came
        if isinstance(came, Left) and came.code >= _KILLED:
            self._starter.lost = True
        return came

    def _check_patience(self) -> None:
        """Give up waiting for who does not stop, or is not heard of any more."""
        now = time.monotonic()
        if self._starter.is_stopped:
            self._stop_by = min(self._stop_by, now + _STOPPING_S)
        if now > self._stop_by:
            raise KeyboardInterrupt
        if now > self._heard_at + _SILENCE_S:
            raise self._starter.loss(TimeoutError(f"silent for {_SILENCE_S:g} s"))

    def _tell(self, index: int, news: News) -> None:
        self._keep(index, news)
        for line in news.lines:
            self._came.put(Said(index, line))
        if news.code is not None:
            self._came.put(Left(index, news.code))

    def _keep(self, index: int, news: News) -> None:
        """Bring into the record what belongs there."""
        if news.log:
            path = self._job.log(index)
            with explained(path):
                make_directory(path.parent, exist_ok=True)
                with open_to_append(path) as log:
                    log.write(news.log)
        for name, content in news.files.items():
            path = self._job.directory / name
            with explained(path):
                make_directories(self._job.directory, path.parent)
                if content is None:
                    remove_file(path)
                else:
                    replace_file(path, content)


def _placed(job: InstanceJob, group: Any) -> list[Any]:
    """Place one process after the other on the machines of a group."""
    per_host = job.instances // job.hosts
    memory = memory_need(job.tables)
    in_group = require_ray().util.scheduling_strategies.PlacementGroupSchedulingStrategy
    return [
        hosted_process(
            num_cpus=CPUS,
            memory=memory,
            scheduling_strategy=in_group(
                group, placement_group_bundle_index=index // per_host
            ),
        )
        for index in range(job.instances)
    ]


def _files_below(directory: Path, part: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): read_file(path, memory_bytes())
        for path in files_below(directory / part)
    }
