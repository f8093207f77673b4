"""Instances of one machine, and what others on it can reach of them."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ipu_runtime.popdist.launched_job import guarded, local_addresses

pytestmark = pytest.mark.slow

SCRIPT = """
import json, os, sys
import numpy as np
import popdist
from ipu_runtime.system.instance_exchange import sum_over_instances
from ipu_runtime.system.cluster import join

cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
told = open(sys.argv[1], "rb", buffering=0)
if popdist.getInstanceIndex() == 0:
    # The other one listens by then, or will soon.
    print("waits", cluster["worker"][1], flush=True)
    told.read(1)
popdist.init()
(total,) = sum_over_instances([np.ones(2, np.float32)], join())
print("joined", total.numpy().tolist(), flush=True)
if popdist.getInstanceIndex() == 0:
    told.read(1)
"""
CALLS = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as caller:
    caller.connect(sys.argv[1])
"""
NOBODY = 65534
"""A user who may do nothing."""


class _Job:
    """Two instances that go on when they are told to."""

    def __init__(self, poprun: subprocess.Popen[str], told: int) -> None:
        assert poprun.stdout is not None
        self._lines, self._told, self._poprun = poprun.stdout, told, poprun

    def line(self, part: str) -> str:
        return next(line for line in self._lines if part in line)

    def go_on(self) -> None:
        os.write(self._told, b".")

    def processes(self) -> list[int]:
        """Return poprun and all that it has started."""
        every = [self._poprun.pid]
        for pid in every:
            for task in Path(f"/proc/{pid}/task").iterdir():
                every += map(int, (task / "children").read_text().split())
        return every


@contextmanager
def _job(tmp_path: Path) -> Iterator[_Job]:
    script, pipe = tmp_path / "script.py", tmp_path / "pipe"
    script.write_text(SCRIPT)
    os.mkfifo(pipe)
    told = os.open(pipe, os.O_RDWR)
    with subprocess.Popen(
        (
            *(sys.executable, "-m", "ipu_runtime.popdist.poprun"),
            *("--num-instances", "2", "--timeout", "120"),
            *("python", str(script), str(pipe)),
        ),
        stdout=subprocess.PIPE,
        text=True,
    ) as poprun:
        try:
            yield _Job(poprun, told)
            assert poprun.wait(60) == 0
        finally:
            poprun.terminate()
            os.close(told)


def _listening(processes: list[int]) -> list[str]:
    """Return where processes listen, as Linux writes addresses."""
    sockets = set()
    for pid in processes:
        for opened in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                sockets.add(os.readlink(opened))
    tables = [Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return [
        row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets
    ]


def test_nothing_of_a_local_job_listens_to_a_network(tmp_path: Path) -> None:
    """`ss -ltn`, before and after instances are connected."""
    with _job(tmp_path) as job:
        address = job.line("waits").split()[-1]
        assert _listening(job.processes()) == []
        folder = Path(address.removeprefix("unix:")).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert folder.stat().st_uid == os.geteuid()
        job.go_on()
        for _ in range(2):
            assert job.line("joined").split()[-2:] == ["[2.0,", "2.0]"]
        assert _listening(job.processes()) == []
        assert list(folder.iterdir()) == []
        job.go_on()
    assert not folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_cannot_call_an_instance(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, guarded() as guard:
        file = local_addresses(2, guard)[0].removeprefix("unix:")
        listener.bind(file)
        listener.listen()
        os.chmod(file, 0o777)
        for user, code in ((0, 0), (NOBODY, 1)):
            called = subprocess.run(
                (sys.executable, "-I", "-c", CALLS, file, str(user)),
                capture_output=True,
                text=True,
            )
            assert called.returncode == code, called.stderr
        assert "PermissionError" in called.stderr
