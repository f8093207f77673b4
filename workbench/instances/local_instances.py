"""Instances as processes of this machine."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from ipu_runtime.popdist.launched_job import (
    cluster_environments,
    end_all,
    guarded,
    local_addresses,
    tell_when_ended,
)
from workbench.instances.instance_job import COMMAND, InstanceJob
from workbench.instances.starting import Left, Said
from workbench.store_files import make_directory, open_to_append
from workbench.store_json import explained

Process = subprocess.Popen[str]


@contextmanager
def start_here(job: InstanceJob) -> Iterator[LocalInstances]:
    """Start the instances on this machine; an `InstanceStarter`."""
    with guarded() as guard:
        processes: list[Process] = []
        cluster = cluster_environments(local_addresses(job.instances, guard))
        try:
            for index in range(job.instances):
                process = _start(job, index, cluster[index])
                print(process.pid, file=guard, flush=True)
                processes.append(process)
            running = LocalInstances(processes)
            for index in range(job.instances):
                running.tell(index, job.order())
            yield running
        finally:
            for process in processes:
                _hang_up(process)
            end_all(processes)


def _start(job: InstanceJob, index: int, cluster: Mapping[str, str]) -> Process:
    path = job.log(index)
    with explained(path):
        make_directory(path.parent, exist_ok=True)
        log = open_to_append(path)
    with log:
        return subprocess.Popen(
            COMMAND,
            env={**os.environ, **job.environment(index), **cluster},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            errors="replace",
            # The terminal is not theirs, and they end together with what they start.
            start_new_session=True,
        )


def _hang_up(process: Process) -> None:
    """Let an instance read the end of its commands, which ends it."""
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.close()


class LocalInstances:
    """Processes with a pipe each way."""

    def __init__(self, processes: list[Process]) -> None:
        self._processes = processes
        self._came: queue.SimpleQueue[Said | Left] = queue.SimpleQueue()
        for index, process in enumerate(processes):
            listener = threading.Thread(
                target=self._listen, args=(index, process), daemon=True
            )
            listener.start()

    def tell(self, instance: int, line: str) -> None:
        """Write a line to an instance's input; one that is gone hears nothing."""
        stream = self._processes[instance].stdin
        assert stream is not None
        with suppress(OSError):
            stream.write(line)
            stream.flush()

    def heard(self, timeout_s: float) -> Said | Left | None:
        """Return what came next from any of them; None if nothing does in time."""
        try:
            return self._came.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def _listen(self, index: int, process: Process) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._came.put(Said(index, line))
        # Not earlier: what it has said before its end comes first.
        tell_when_ended(index, process, lambda end: self._came.put(Left(index, end[1])))
