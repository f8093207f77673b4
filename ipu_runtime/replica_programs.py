"""The programs that `IPUStrategy.run` has made of functions."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.device_loop import waiting_for_replicas
from ipu_runtime.engine.placement import Placement, placed_on
from ipu_runtime.engine.replicated_function import ReplicatedFunction
from ipu_runtime.replica_reductions import reductions_on_device


@dataclass
class _Traced:
    """What tracing has told about a function."""

    shards: set[int] = field(default_factory=set)
    """IPUs of a replica that it places something on."""
    tell: list[Callable[[int], None]] = field(default_factory=list)
    """Who wants to know the number of replicas: outfeeds."""
    programs: dict[int, ReplicatedFunction] = field(default_factory=dict)
    """By number of replicas."""


class ReplicaPrograms:
    """Keeps a program for as long as its function lives."""

    def __init__(self) -> None:
        self._traced: weakref.WeakKeyDictionary[Any, _Traced] = (
            weakref.WeakKeyDictionary()
        )

    def run(
        self, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], device: str
    ) -> Any:
        """Run a function on as many replicas as the device has room for."""
        known = self._traced.setdefault(fn, _Traced())
        # What loops inside build is for one replica: it is copied with the function.
        inside = Placement(device, replicas=1, shards=known.shards)
        with (
            placed_on(inside),
            reductions_on_device(),
            waiting_for_replicas() as waiting,
        ):
            traced = _trace(fn, args, kwargs)
            known.tell.extend(waiting)
            replicas = Placement(device, shards=known.shards).replica_count()
            for tell in known.tell:
                tell(replicas)
            if replicas not in known.programs:
                known.programs[replicas] = ReplicatedFunction(fn, replicas)
            return known.programs[replicas].run(traced, args, kwargs)


def _trace(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Trace, and raise if the function takes or returns what the device has not."""
    traced = fn
    if isinstance(fn, tf.types.experimental.GenericFunction):
        traced = fn.get_concrete_function(*args, **kwargs)
    explicit = len(traced.inputs) - len(traced.captured_inputs)
    for what, tensors in (
        ("input", traced.inputs[:explicit]),
        ("output", traced.outputs),
    ):
        if any(tensor.dtype == tf.float64 for tensor in tensors):
            raise TypeError(f"Unsupported data type for {what}: float64")
    return traced
