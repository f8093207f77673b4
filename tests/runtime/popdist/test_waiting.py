"""An instance that waits for others says so, and can be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from ipu_runtime.popdist.launched_job import cluster_environments, free_address

ALONE = """
from ipu_runtime import popdist
from ipu_runtime.system import cluster

cluster._PATIENCE_S = 0.5
popdist.init()
"""
IN_C = """
import ctypes, threading
from ipu_runtime.system.cluster import end_when_blocked

end_when_blocked(0.1)
library, lock = ctypes.CDLL(None), ctypes.create_string_buffer(64)
library.pthread_mutex_lock(lock)
threading.Timer(0.1, lambda: print("waits", flush=True)).start()
library.pthread_mutex_lock(lock)
"""
"""Nobody can tell from inside that the second call has begun."""
IN_PYTHON = """
import time
from ipu_runtime.system.cluster import end_when_blocked

end_when_blocked()
try:
    print("waits", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    raise SystemExit(7)
"""


def _ended(
    script: str, number: signal.Signals, says: str, environment: dict[str, str]
) -> int:
    """Start a script, signal it when it has said something, and return how it ends."""
    with subprocess.Popen(
        (sys.executable, "-c", script),
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A shell's background job ignores INT, and so would all that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        limit = threading.Timer(60, process.kill)
        limit.start()
        assert any(says in line for line in process.stdout)
        process.send_signal(number)
        code = process.wait()
        limit.cancel()
        return code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_that_waits_for_the_start_of_others(number: signal.Signals) -> None:
    addresses = [free_address("127.0.0.1") for _ in range(2)]
    environment = cluster_environments(addresses)[0]
    says = f"Instance 0 of 2 waits for the others at {addresses[1]}"
    assert _ended(ALONE, number, says, environment) == -number


@pytest.mark.parametrize(
    ("script", "code"), [(IN_C, 128 + signal.SIGINT), (IN_PYTHON, 7)]
)
def test_an_interrupt_ends_what_python_does_not_come_to(script: str, code: int) -> None:
    assert _ended(script, signal.SIGINT, "waits", {}) == code
