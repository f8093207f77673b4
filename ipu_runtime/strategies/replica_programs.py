"""The programs that `IPUStrategy.run` has made of functions."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.device_loop import waiting_for_replicas
from ipu_runtime.engine.build.replicas.replicated_function import ReplicatedFunction
from ipu_runtime.engine.describe.function_program import announce_function
from ipu_runtime.engine.describe.model_scope import LayerUse, model_scope
from ipu_runtime.engine.describe.operations_reader import repeated
from ipu_runtime.engine.describe.placement import Placement, placed_on
from ipu_runtime.engine.numerics.half_models import configured_half
from ipu_runtime.engine.run.script_program import (
    ScriptProgram,
    script_program,
    tracing,
)
from ipu_runtime.engine.watch.interception import is_intercepted, layers_wanted
from ipu_runtime.strategies.replica_reductions import reductions_on_device
from ipu_runtime.system.emulated_device import device_draws
from ipu_runtime.system.instances import Instance


@dataclass
class _Traced:
    """What tracing has told about a function."""

    shards: set[int] = field(default_factory=set)
    """IPUs of a replica that it places something on."""
    tell: list[Callable[[int], None]] = field(default_factory=list)
    """Who wants to know the number of replicas: outfeeds."""
    programs: dict[int, ReplicatedFunction] = field(default_factory=dict)
    """By number of replicas."""
    watched: ScriptProgram | None = None
    """What is told of it; None if nobody wants to know."""
    seed_resets: int = -1
    """How often the device was seeded when they were made."""


class ReplicaPrograms:
    """Keeps a program for as long as its function lives."""

    def __init__(self) -> None:
        self._traced: weakref.WeakKeyDictionary[Any, _Traced] = (
            weakref.WeakKeyDictionary()
        )

    def run(
        self,
        fn: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        device: str,
        instance: Instance,
    ) -> Any:
        """Run a function on as many replicas as the device has room for."""
        known = self._traced.get(fn)
        if known is None:
            known = self._traced[fn] = _Traced(watched=script_program("run", fn))
        # What loops inside build is for one replica: it is copied with the function.
        inside = Placement(
            device, replicas=1, shards=known.shards, joined_instance=instance
        )
        with (
            placed_on(inside),
            reductions_on_device(),
            configured_half(),
            waiting_for_replicas() as waiting,
            tracing(known.watched),
        ):
            with _layers_noticed() as uses:
                traced = _trace(fn, args, kwargs)
            known.tell.extend(waiting)
            replicas = Placement(device, shards=known.shards).replica_count()
            for tell in known.tell:
                tell(replicas)
            if known.seed_resets != device_draws().resets:
                known.seed_resets = device_draws().resets
                known.programs.clear()
            if replicas not in known.programs:
                if is_intercepted():
                    names = [item.name for item in traced.graph.variables]
                    steps = repeated(traced.graph)[1]
                    announce_function("run", uses, names, inside, steps)
                known.programs[replicas] = ReplicatedFunction(fn, replicas, instance)
            program, watched = known.programs[replicas], known.watched
            if watched is None or not tf.executing_eagerly():
                return program.run(traced, args, kwargs)
            watched.graph = watched.graph or traced.graph
            watched.shards = max(known.shards, default=0) + 1
            results = watched.execute(
                lambda: program.run(traced, args, kwargs), replicas
            )
            watched.returned(results)
            return results


@contextmanager
def _layers_noticed() -> Iterator[Sequence[LayerUse]]:
    """Notice the layers that a function calls, if somebody outside asks for them."""
    if not layers_wanted():
        yield ()
        return
    with model_scope() as scope:
        yield scope.layer_uses


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
