"""Traces of a program's own: `libpvti`, as Graphcore's PopVision library of that name.

Tracing is on when the environment has PVTI_OPTIONS, a JSON object with `enable`,
`directory`, `channels` and `duration`. A trace is written as the program runs, in the
format that chrome://tracing and Perfetto open.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

_VARIABLE = "PVTI_OPTIONS"


@dataclass(eq=False)
class TraceChannel:
    """A name that events are collected under."""

    name: str
    enabled: bool = True


@dataclass
class _Session:
    """The trace file of this process, opened by the first event."""

    enabled: bool
    directory: Path = Path()
    only: frozenset[str] = frozenset()
    duration_s: float = 0.0
    started_s: float = field(default_factory=time.perf_counter)
    channels: list[TraceChannel] = field(default_factory=list)
    path: Path | None = None
    _file: TextIO | None = None
    _closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def from_environment(cls) -> _Session:
        """Read the options; what cannot be read turns tracing on with defaults."""
        text = os.environ.get(_VARIABLE)
        if text is None:
            return cls(enabled=False)
        try:
            options = json.loads(text)
            return cls(
                enabled=str(options.get("enable", True)).lower() == "true",
                directory=Path(options.get("directory") or "."),
                only=frozenset(options.get("channels") or ()),
                duration_s=float(options.get("duration") or 0),
            )
        except (ValueError, TypeError, AttributeError):
            return cls(enabled=True)

    def wants(self, channel: TraceChannel) -> bool:
        """Tell whether events of a channel are written."""
        over = 0 < self.duration_s < time.perf_counter() - self.started_s
        return self.enabled and channel.enabled and not self._closed and not over

    def write(self, event: dict[str, Any]) -> None:
        """Append an event at this moment."""
        moment = {
            "ts": (time.perf_counter() - self.started_s) * 1e6,
            "pid": os.getpid(),
            "tid": threading.get_native_id(),
        }
        with self._lock:
            separator = ",\n"
            if self._file is None:
                self._file, separator = self._opened(), "[\n"
            self._file.write(separator + json.dumps(event | moment))
            self._file.flush()

    def _opened(self) -> TextIO:
        self.directory.mkdir(parents=True, exist_ok=True)
        stamp = time.strftime("%a_%b_%d_%H-%M-%S_%Y_%Z")
        self.path = self.directory / f"{stamp}_{os.getpid()}.json"
        atexit.register(self.close)
        return self.path.open("w", encoding="utf-8")

    def close(self) -> None:
        """End the trace; nothing is written after it."""
        with self._lock:
            if self._file is not None and not self._closed:
                self._file.write("\n]\n")
                self._file.close()
            self._closed = True


_session = _Session.from_environment()


def createTraceChannel(name: str) -> TraceChannel:
    """Return a new channel; on, unless PVTI_OPTIONS names others only."""
    channel = TraceChannel(name, not _session.only or name in _session.only)
    _session.channels.append(channel)
    return channel


traceDrivers = createTraceChannel("Drivers")
tracePoplar = createTraceChannel("Poplar")
traceFramework = createTraceChannel("Framework")


def enableTraceChannel(channel: TraceChannel) -> None:
    """Turn a channel on."""
    channel.enabled = True


def disableTraceChannel(channel: TraceChannel) -> None:
    """Turn a channel off."""
    channel.enabled = False


def checkTraceChannel(channel: TraceChannel) -> bool:
    """Tell whether events of a channel are written."""
    return _session.wants(channel)


def listTraceChannel() -> list[list[Any]]:
    """Return the names of all channels, and whether they are on."""
    return [[channel.name, checkTraceChannel(channel)] for channel in _session.channels]


def getCurrentTraceFilename() -> str:
    """Return the file that events go to; empty before the first one."""
    return str(_session.path) if _session.path is not None else ""


def closeTrace() -> None:
    """End the trace of this process."""
    _session.close()


class Tracepoint:
    """Something that takes time: from `begin` to `end`, or inside of `with`."""

    def __init__(self, channel: TraceChannel, label: str) -> None:
        self._channel = channel
        self._label = label

    def __enter__(self) -> Tracepoint:
        self.begin(self._channel, self._label)
        return self

    def __exit__(self, *reason: Any) -> None:
        self.end(self._channel, self._label)

    @staticmethod
    def begin(channel: TraceChannel, label: str) -> None:
        """Note that something begins."""
        _event(channel, "B", label)

    @staticmethod
    def end(channel: TraceChannel, label: str) -> None:
        """Note that it ends."""
        _event(channel, "E", label)

    @staticmethod
    def event(channel: TraceChannel, label: str) -> None:
        """Note something that takes no time."""
        _event(channel, "i", label, s="t")


def instrument_fn(
    channel: TraceChannel,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that traces the calls of a function."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            with Tracepoint(channel, function.__qualname__):
                return function(*args, **kwargs)

        return traced

    return decorate


def instrument(obj: Any, methods: Iterable[str], channel: TraceChannel) -> None:
    """Trace the calls of an object's methods."""
    for name in methods:
        setattr(obj, name, instrument_fn(channel)(getattr(obj, name)))


class Series:
    """A line of a graph."""

    def __init__(self, graph: str, label: str, unit: str) -> None:
        self._graph = f"{graph} ({unit})" if unit else graph
        self._label = label

    def add(self, value: float) -> None:
        """Add a value at this moment."""
        _counter(self._graph, {self._label: float(value)})


class Graph:
    """Numbers over time, drawn as counters."""

    def __init__(self, name: str, unit: str = "", enable: bool = True) -> None:
        self._name, self._unit = name, unit
        del enable  # PVTI_OPTIONS decides for all of them.

    def addSeries(self, label: str) -> Series:
        """Return a new line of the graph."""
        return Series(self._name, label, self._unit)


class HeatmapDouble:
    """How values spread over bins, over time."""

    def __init__(self, name: str, edges: Sequence[float], unit: str = "") -> None:
        self._series = f"{name} ({unit})" if unit else name
        self._edges = sorted(float(edge) for edge in edges)

    def add(self, values: Iterable[float]) -> None:
        """Add the counts of values between neighbouring edges."""
        bins = Counter(bisect_right(self._edges, value) for value in values)
        counts = {
            f"{low:g} to {high:g}": bins[index]
            for index, (low, high) in enumerate(pairwise(self._edges), start=1)
        }
        _counter(self._series, counts)


HeatmapInt = HeatmapDouble


def _event(channel: TraceChannel, phase: str, label: str, **more: Any) -> None:
    if _session.wants(channel):
        _session.write({"ph": phase, "name": label, "cat": channel.name, **more})


def _counter(name: str, values: dict[str, Any]) -> None:
    if _session.wants(_graphs):
        _session.write({"ph": "C", "name": name, "args": values})


_graphs = TraceChannel("Graphs")
