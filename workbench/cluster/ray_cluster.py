"""A Ray cluster: joining it, leaving it, and what it has."""

from __future__ import annotations

import atexit
import importlib.util
import logging
import os
import queue
import secrets
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

from ipu_runtime.system.ring_sockets import PublicAddressError, refuse_public
from workbench.cluster.local_ray import ray_here
from workbench.cluster.place import NEEDS_EXTRA, ClusterError, Place

Answer = TypeVar("Answer")

_PACKAGES = ("workbench", "ipu_runtime", "presets")
"""What workers are given of this project, in the version that runs here."""
_ANSWER_S = 10.0
_LEAVING_S = 60
_LEFT_OUT = ["**/__pycache__", "**/.git", "**/.venv"]


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of a cluster."""

    node_id: str
    address: str
    host: str
    name: str
    """Given with `ray start --node-name`; the address if none was."""
    is_head: bool
    cpus: float
    memory_bytes: int
    """What Ray gives to work; the rest is for objects and the system."""

    def places(self, cpus: float, memory_bytes: int) -> int:
        """Return how many processes of a size find room on it when it is empty."""
        by_memory = self.memory_bytes // max(memory_bytes, 1)
        return int(min(self.cpus // cpus, by_memory))


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What a cluster has, and how much of it is free."""

    ray_version: str
    nodes: tuple[Node, ...]
    free_cpus: float
    free_memory_bytes: int


def require_ray() -> Any:
    """Return Ray, or say how it is installed."""
    if importlib.util.find_spec("ray") is None:
        raise ClusterError(NEEDS_EXTRA)
    # An extra, and nothing that works on this machine alone needs it.
    import ray

    return ray


@contextmanager
def connected(place: Place, files: Path | None = None) -> Iterator[None]:
    """Be connected to a cluster; one that is started for this ends with it.

    Args:
        place: Which cluster.
        files: Directory that workers get a copy of, and work in. Workers that see
            the files of this machine get none, and no code either.
    """
    _refuse_public(place)
    # Who joins is asked for the token only if Ray is told so before it is loaded.
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    # Ray ends the process without a word when the head is gone for longer.
    patience = str(int(place.wait_s) + _LEAVING_S)
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", patience)
    if place.text == "ray":
        # Nobody else is to join, so no file needs to hold it.
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    else:
        _keep_token_private()
    ray = require_ray()
    options: dict[str, Any] = {}
    if files is not None:
        options["runtime_env"] = {
            "py_modules": [_folder(name) for name in _PACKAGES],
            "working_dir": str(files),
            "excludes": _LEFT_OUT,
        }
    results = _ResultsOnly(sys.stdout)
    with (
        ray_here() if place.text == "ray" else nullcontext(place.text) as address,
        redirect_stdout(cast(TextIO, results)),
    ):
        try:
            with _signals_kept(), warnings.catch_warnings(action="ignore"):
                ray.init(
                    address=address,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    **options,
                )
        except Exception as error:
            # Ray has a dozen kinds for it, and none in common.
            raise ClusterError(_why_not(place, error)) from error
        try:
            yield
        finally:
            results.all_told = True
            answered(ray.shutdown)
            # It would be waited for again, without end where nobody answers.
            atexit.unregister(ray.shutdown)


class _ResultsOnly:
    """Standard output without what Ray prints there when a node dies."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.all_told = False
        """Whether only Ray speaks from now on, which prints the rest as it ends."""

    def write(self, text: str) -> int:
        """Write a result, or what Ray says to where native libraries say theirs."""
        if self.all_told or threading.current_thread().name.startswith("ray_"):
            return os.write(2, text.encode())
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def answered(ask: Callable[[], Answer]) -> Answer | None:
    """Return what the cluster answers; None if it does not in time, or cannot.

    Ray itself waits without end for a head that is gone.
    """
    answer: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()

    def wait() -> None:
        try:
            answer.put(ask())
        except Exception:
            # Ray has a dozen kinds for a cluster that is gone, and none in common.
            answer.put(None)

    threading.Thread(target=wait, daemon=True).start()
    try:
        return answer.get(timeout=_ANSWER_S)
    except queue.Empty:
        return None


def cluster_facts() -> ClusterFacts:
    """Return what the cluster has that this process is connected to."""
    ray = require_ray()
    free = ray.available_resources()
    nodes = [_node(row) for row in ray.nodes() if row["Alive"]]
    return ClusterFacts(
        ray.__version__,
        tuple(sorted(nodes, key=lambda node: (not node.is_head, node.address))),
        free.get("CPU", 0.0),
        int(free.get("memory", 0)),
    )


def _node(row: Mapping[str, Any]) -> Node:
    has = row["Resources"]
    return Node(
        row["NodeID"],
        row["NodeManagerAddress"],
        row["NodeManagerHostname"],
        row["NodeName"],
        "node:__internal_head__" in has,
        has.get("CPU", 0.0),
        int(has.get("memory", 0)),
    )


def _folder(package: str) -> str:
    found = importlib.util.find_spec(package)
    places: Sequence[str] = (found and found.submodule_search_locations) or ()
    return os.path.realpath(places[0])


def _refuse_public(place: Place) -> None:
    """Raise if a cluster is on the internet, unless that is allowed."""
    given = os.environ.get("RAY_ADDRESS", "") if place.text == "auto" else place.text
    address = given.removeprefix("ray://")
    try:
        refuse_public([address] if ":" in address else [], place.network_allowed)
    except PublicAddressError as error:
        raise ClusterError(
            f"{address} is a public address, and Ray encrypts nothing: reach the "
            "cluster through a private network, or allow it with --allow-network"
        ) from error


def _keep_token_private() -> None:
    """Let nobody else read the token of clusters, as `ray get-auth-token` would."""
    default = "~/.ray/auth_token"
    file = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or default).expanduser()
    # Ray says what is wrong with one that is missing or not ours.
    with suppress(OSError):
        file.chmod(0o600)


def _why_not(place: Place, error: Exception) -> str:
    said = next(filter(None, map(str.strip, str(error).splitlines())), "")
    if place.text == "auto" and said.startswith("Could not find any running"):
        return (
            "no Ray cluster is running on this machine: start one with `ray start "
            "--head`, or name one with --on ray://HOST:PORT"
        )
    return f"cannot join {place.text}: {said or type(error).__name__}"


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Put back what Ray does to signals: whoever connects decides how work ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
