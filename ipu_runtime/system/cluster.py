"""The connection between the processes of a distributed job."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ipu_runtime.system.instances import Instance, cluster_config, current_instance
from ipu_runtime.system.ring import Ring
from ipu_runtime.system.ring_sockets import (
    NETWORK_ALLOWED,
    SECRET,
    neighbours,
    refuse_public,
)

_OWNER = "IPU_RUNTIME_CLUSTER_OWNER"
"""Process that has joined: others that it starts inherit its environment."""

_SHORTEST_SECRET = 16

_PATIENCE_S = 15.0
"""How long instances may take to start before a word is said about it."""

_ring: Ring | None = None


def join() -> Instance:
    """Connect this process to the others of its job, and return its place there.

    Whoever exchanges something calls it, and `popdist.init` for all who want to wait
    for the others earlier.
    """
    global _ring
    instance = current_instance()
    if instance.count > 1 and _ring is None:
        addresses = cluster_config(os.environ).addresses
        _check_cluster(instance)
        refuse_public(addresses, bool(os.environ.get(NETWORK_ALLOWED)))
        secret = _secret()
        os.environ[_OWNER] = str(os.getpid())
        with _waiting_told(instance):
            connections = neighbours(instance.index, addresses, secret)
        _ring = Ring(instance.index, instance.count, *connections)
        end_when_blocked()
    return instance


def ring() -> Ring:
    """Return what carries arrays between the processes of the job, once joined."""
    assert _ring is not None
    return _ring


@contextmanager
def _waiting_told(instance: Instance) -> Iterator[None]:
    """Say whom this process waits for, should that take long."""
    others = [
        address
        for index, address in enumerate(cluster_config(os.environ).addresses)
        if index != instance.index
    ]
    timer = threading.Timer(
        _PATIENCE_S,
        lambda: print(
            f"Instance {instance.index} of {instance.count} waits for the others at "
            f"{', '.join(others)}",
            file=sys.stderr,
            flush=True,
        ),
    )
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _check_cluster(instance: Instance) -> None:
    owner = os.environ.get(_OWNER)
    if owner is not None:
        raise RuntimeError(
            f"Process {os.getpid()} was started by process {owner}, which is instance "
            f"{instance.index} of the job: only that one takes part in it."
        )
    cluster = cluster_config(os.environ)
    named = (len(cluster.addresses), cluster.index)
    if named != (instance.count, instance.index):
        raise RuntimeError(
            f"This is instance {instance.index} of {instance.count} as POPDIST_* says, "
            f"but task {named[1]} of {named[0]} as TF_CONFIG says: start the script "
            "with poprun, which sets both, or set TF_CONFIG alone."
        )


def _secret() -> bytes:
    secret = os.environ.get(SECRET, "")
    if len(secret) < _SHORTEST_SECRET:
        raise RuntimeError(
            f"{SECRET} must have at least {_SHORTEST_SECRET} characters, not "
            f"{len(secret)}: instances know each other by it, so that nobody else can "
            "join them. poprun makes one up; with TF_CONFIG alone, give all instances "
            "the same random text."
        )
    return secret.encode()


def end_when_blocked(grace_s: float = 3.0) -> None:
    """From now on, end the process if it does not come to act on an interrupt.

    Python runs handlers of signals in the main thread between two of its own
    instructions. A process that waits for others in TensorFlow's C++ (`Session.run`, a
    `tf.function`) comes to none, so that Control-C would be without effect.

    Args:
        grace_s: Time for Python to take note of an interrupt.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    numbers, told = os.pipe()
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    if before != -1:
        # Somebody else listens, and there can be only one.
        signal.set_wakeup_fd(before)
        return
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    noted = threading.Event()

    def interrupted(number: int, frame: Any) -> None:
        noted.set()
        signal.default_int_handler(number, frame)

    def watch() -> None:
        while number := os.read(numbers, 1):
            own = signal.getsignal(signal.SIGINT) is interrupted
            if number[0] != signal.SIGINT or not own:
                continue
            if not noted.wait(grace_s):
                sys.stderr.flush()
                os._exit(128 + signal.SIGINT)
            noted.clear()

    signal.signal(signal.SIGINT, interrupted)
    threading.Thread(target=watch, daemon=True).start()
