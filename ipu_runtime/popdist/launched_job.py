"""The instances that `poprun` starts: their output, and that they end together."""

from __future__ import annotations

import json
import os
import queue
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ipu_runtime.popdist.poprun_options import PoprunOptions
from ipu_runtime.reports.plain_text import plain_text
from ipu_runtime.system.ring_sockets import (
    NETWORK_ALLOWED,
    SECRET,
    UNIX,
    refuse_public,
)

_TIMED_OUT = 124
_GRACE_S = 5.0
"""Between asking an instance to end and ending it."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HERE = Path(__file__).parent

Ended = tuple[int | None, int]
"""An instance and its exit code; or none, and the code to leave with."""


def run_job(options: PoprunOptions) -> int:
    """Start all instances and wait for them; return the first failing exit code."""
    ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
    with signals_told(ended), guarded() as guard, ExitStack() as outputs:
        instances: list[subprocess.Popen[str]] = []
        try:
            for environment in _environments(options, guard):
                instances.append(_start(options, environment, guard))
            for index, instance in enumerate(instances):
                shown = options.shown_instance in (None, index)
                outputs.enter_context(_shown(index, instance, shown))
                tell_when_ended(index, instance, ended.put)
            return wait_for(options, len(instances), ended)
        finally:
            end_all(instances)


def wait_for(
    options: PoprunOptions, running: int, ended: queue.SimpleQueue[Ended]
) -> int:
    """Wait until instances have ended; return the first failing exit code."""
    limit = options.timeout_s
    deadline = None if limit is None else time.monotonic() + limit
    while running:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            index, code = ended.get(timeout=left)
        except queue.Empty:
            say(f"not done after {limit:g} s (--timeout): all instances are ended")
            return _TIMED_OUT
        if index is None:
            say(f"{signal.Signals(code - 128).name}: all instances are ended")
            return code
        running -= 1
        if code or options.verbose:
            say(f"instance {index} has ended with exit code {code}")
        if code:
            return code
    return 0


def _environments(options: PoprunOptions, guard: IO[str]) -> Iterator[dict[str, str]]:
    own = cluster_environments(local_addresses(options.instances, guard))
    python_path = [str(_HERE / "startup"), os.environ.get("PYTHONPATH", "")]
    for index in range(options.instances):
        common = {**os.environ, **options.environment(index)}
        common["PYTHONPATH"] = os.pathsep.join(filter(None, python_path))
        common["PYTHONUNBUFFERED"] = "1"
        common.pop("TF_CONFIG", None)
        yield common | own[index]


def cluster_environments(
    addresses: Sequence[str], network_allowed: bool = False
) -> list[dict[str, str]]:
    """Return what tells each instance where all are; one alone needs nothing.

    Args:
        addresses: Where each listens until all are connected.
        network_allowed: Whether that may be an address of the internet; otherwise
            this raises `PublicAddressError`.
    """
    if len(addresses) == 1:
        return [{}]
    refuse_public(addresses, network_allowed)
    common = {SECRET: secrets.token_hex(32)}
    if network_allowed:
        common[NETWORK_ALLOWED] = "1"
    cluster = {"worker": list(addresses)}
    tasks = ({"type": "worker", "index": index} for index in range(len(addresses)))
    return [
        {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task}), **common}
        for task in tasks
    ]


def local_addresses(count: int, guard: IO[str]) -> list[str]:
    """Return addresses that no other user can reach, for as long as the guard lives."""
    # Nobody but the user may look into it.
    directory = tempfile.mkdtemp(prefix="poprun-")
    print(directory, file=guard, flush=True)
    return [f"{UNIX}:{directory}/{index}" for index in range(count)]


def free_address(host: str) -> str:
    """Return an address of a host that nobody listens at now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as free:
        free.bind((host, 0))
        port = free.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _start(
    options: PoprunOptions, environment: dict[str, str], guard: IO[str]
) -> subprocess.Popen[str]:
    instance = subprocess.Popen(
        options.command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    print(instance.pid, file=guard, flush=True)
    if options.verbose:
        say(f"process {instance.pid}: {' '.join(options.command)}")
    return instance


@contextmanager
def _shown(index: int, instance: subprocess.Popen[str], shown: bool) -> Iterator[None]:
    """Copy what an instance writes, line by line with its number before it."""

    def copy(source: IO[str], target: Any) -> None:
        for line in source:
            # Nobody may be reading any more, but the instance must not block.
            with suppress(OSError, ValueError):
                if shown:
                    target.write(f"[{index}] {line.removesuffix(chr(10))}\n")
                    target.flush()

    assert instance.stdout is not None
    assert instance.stderr is not None
    threads = [
        threading.Thread(target=copy, args=pair, daemon=True)
        for pair in ((instance.stdout, sys.stdout), (instance.stderr, sys.stderr))
    ]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        # Something that has left the instance's group may still hold its output.
        thread.join(_GRACE_S)


def tell_when_ended(
    index: int, instance: subprocess.Popen[str], told: Callable[[Ended], None]
) -> None:
    """Tell, from a thread, how an instance has ended."""

    def wait() -> None:
        # It is not taken note of before all end, so that no other process group can
        # get its number.
        with suppress(ChildProcessError):
            end = os.waitid(os.P_PID, instance.pid, os.WEXITED | os.WNOWAIT)
            assert end is not None
            killed = end.si_code != os.CLD_EXITED
            # As a shell says it.
            told((index, 128 + end.si_status if killed else end.si_status))

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def signals_told(ended: queue.SimpleQueue[Ended]) -> Iterator[None]:
    """Let signals end the job, rather than this process alone."""
    before = {
        number: signal.signal(number, lambda got, _: ended.put((None, 128 + got)))
        for number in _SIGNALS
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def guarded() -> Iterator[IO[str]]:
    """Have a process that ends the instances should this one be killed.

    It is told their process groups, and directories that it removes in any case.
    """
    guard = subprocess.Popen(
        (sys.executable, "-I", "-S", str(_HERE / "job_guard.py")),
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with guard:
        assert guard.stdin is not None
        yield guard.stdin


def end_all(instances: list[subprocess.Popen[str]]) -> None:
    """End all that is left of the instances, and of what they have started."""
    for instance in instances:
        _signal_group(instance, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    for instance in instances:
        with suppress(subprocess.TimeoutExpired):
            instance.wait(max(0.0, deadline - time.monotonic()))
        _signal_group(instance, signal.SIGKILL)
        instance.wait()


def _signal_group(instance: subprocess.Popen[str], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(instance.pid, number)


def say(text: str) -> None:
    """Tell something that no instance has written."""
    print(plain_text(f"poprun: {text}"), file=sys.stderr, flush=True)
