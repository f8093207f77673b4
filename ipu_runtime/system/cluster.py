"""The connection between the processes of a distributed job."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ipu_runtime.system.cluster_config import cluster_config
from ipu_runtime.system.held_up import end_when_held_up, ended_by_signals
from ipu_runtime.system.instances import Instance, current_instance

_OWNER = "IPU_RUNTIME_CLUSTER_OWNER"
"""Process that has joined: others that it starts inherit its environment."""

_PATIENCE_S = 15.0
"""How long instances may take to start before a word is said about it."""

_joined: Any = None


def joins_at_start() -> bool:
    """Tell whether this process is one of several that have not joined yet."""
    return _joined is None and _OWNER not in os.environ and current_instance().count > 1


def join() -> Instance:
    """Connect this process to the others of its job, and return its place there.

    TensorFlow connects processes before it does anything else, so that the emulator
    joins when it is imported.
    """
    global _joined
    instance = current_instance()
    if instance.count == 1 or _joined is not None:
        return instance
    _check_cluster(instance)
    # TensorFlow is loaded by those who train, not by those who ask for counts.
    from ipu_runtime.frameworks import tensorflow_collectives

    if tensorflow_collectives.context_is_open():
        raise RuntimeError(
            "TensorFlow has been used before the instances were connected: call "
            "popdist.init() before any operation of TensorFlow."
        )
    os.environ[_OWNER] = str(os.getpid())
    with _waiting_told(instance), ended_by_signals():
        _joined = tensorflow_collectives.open_cluster()
    end_when_held_up()
    return instance


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
