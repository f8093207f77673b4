"""Programs in a session's graph, whose device may be configured after they are built.

Scripts of the older API compile first, configure the system next and open a session
last. How many replicas run is decided by the device then, so a program that stands in
a graph already is built once more, and what the script holds of it leads to the new
one.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.programs.own_program import OwnProgram
from ipu_runtime.engine.build.replicas.replica_variables import FirstValues
from ipu_runtime.engine.describe.call_graph import operations_before
from ipu_runtime.frameworks.patch_points import session_patches
from ipu_runtime.frameworks.patching import around
from ipu_runtime.frameworks.tensorflow_graphs import (
    replace_input,
    wait_for_nothing_but,
)
from ipu_runtime.frameworks.types import Session
from ipu_runtime.system.instance_exchange import lost_instances_named

_PROGRAMS = "ipu_programs"
"""Collection of a graph that keeps its programs as long as the graph lives."""


@dataclass(frozen=True)
class Built:
    """A program for a number of replicas."""

    done: Any
    """Completes when all replicas have."""
    outputs: Sequence[Any]
    """Of the first replica."""
    first_values: FirstValues


def late_program(
    build: Callable[[int], Built],
    replicas: Callable[[], int],
    started: Callable[[], None],
    watched: OwnProgram | None = None,
) -> Any:
    """Build a program for the device as it is when a session runs it.

    `started` is called before it runs for the first time.
    """
    program = _LateProgram(build, replicas, started, watched)
    if program.graph.building_function:
        started()
    else:
        # For good: the graph may be run by any session of the script, at any time.
        for patch in _sessions:
            patch.install()
        tf.compat.v1.add_to_collection(_PROGRAMS, program)
    return program.results


class _LateProgram:
    """A program that follows the replicas of its device until a session runs it."""

    def __init__(
        self,
        build: Callable[[int], Built],
        replicas: Callable[[], int],
        started: Callable[[], None],
        watched: OwnProgram | None,
    ) -> None:
        self._build, self._replicas, self._started = build, replicas, started
        self.watched = watched
        self._needed_by: dict[str, bool] = {}
        self.graph = tf.compat.v1.get_default_graph()
        self._count = replicas()
        self._has_run = False
        self._begun: weakref.WeakSet[Any] = weakref.WeakSet()
        built = build(self._count)
        self._first_values = built.first_values
        self._done = tf.group(built.done)
        with tf.control_dependencies([self._done]):
            self._outputs = [tf.identity(tensor) for tensor in built.outputs]

    @property
    def results(self) -> Any:
        """What the script gets: a list of tensors, or the operation without any."""
        return self._outputs or self._done

    def before_run(self) -> None:
        """Build the program anew if the device has room for other replicas now."""
        count = self._replicas()
        if count != self._count:
            if self._has_run:
                raise RuntimeError(
                    f"The program was compiled for {self._count} replica(s), but the "
                    f"system has been configured for {count} since a session ran its "
                    "graph. Configure the system before the first `Session.run`."
                )
            self._rebuild(count)
        if not self._has_run:
            self._started()
        self._has_run = True

    def runs_for(self, fetched: Sequence[Any]) -> bool:
        """Tell whether a session that fetches these runs the program."""
        return any(self._runs_for(item) for item in fetched)

    def _runs_for(self, item: Any) -> bool:
        operation = getattr(item, "op", item)
        if not isinstance(operation, tf.Operation):
            return False
        if operation.name not in self._needed_by:
            before = operations_before(operation)
            self._needed_by[operation.name] = self._done.name in before
        return self._needed_by[operation.name]

    @property
    def looks_at_fetches(self) -> bool:
        """Whether it matters that a session runs this program."""
        return self.watched is not None or self._first_values.instance.count > 1

    def run(self, run: Callable[[], Any], session: Any, fetched: Sequence[Any]) -> Any:
        """Run a session that may run this program, and tell who watches.

        All processes have the same variables when a session first runs it.
        """
        executes, watched = self.runs_for(fetched), self.watched
        with lost_instances_named(self._first_values.instance):
            if executes and session not in self._begun:
                self._begun.add(session)
                self._first_values.take(session)
            if watched is None:
                return run()
            return self._watched_run(run, executes, fetched, watched)

    def _watched_run(
        self,
        run: Callable[[], Any],
        executes: bool,
        fetched: Sequence[Any],
        watched: OwnProgram,
    ) -> Any:
        if executes:
            watched.began(self._count)
        start = time.perf_counter()
        results = run()
        seconds = time.perf_counter() - start
        flat = tf.nest.flatten(results)
        if len(flat) == len(fetched):
            made = {tensor.name: "" for tensor in self._outputs}
            named = list(zip(fetched, flat, strict=True))
            if executes:
                watched.executed(seconds, _values(named, made))
            if taken := _values(named, watched.dequeued):
                watched.took(taken)
        return results

    def _rebuild(self, count: int) -> None:
        self._count = count
        with self.graph.as_default(), tf.control_dependencies(None):
            built = self._build(count)
        self._first_values = built.first_values
        wait_for_nothing_but(self._done, built.done)
        for output, tensor in zip(self._outputs, built.outputs, strict=True):
            replace_input(output.op, tensor)


def _run_prepared(original: Any, session: Session, *args: Any, **kwargs: Any) -> Any:
    """Let a session look at the programs of its graph before it runs."""
    work = functools.partial(original, session, *args, **kwargs)
    programs = session.graph.get_collection(_PROGRAMS)
    for program in programs:
        program.before_run()
    if not any(program.looks_at_fetches for program in programs):
        return work()
    fetched = tf.nest.flatten(args[0] if args else kwargs.get("fetches"))
    for program in programs:
        work = functools.partial(program.run, work, session, fetched)
    return work()


_sessions = session_patches(around(_run_prepared))


def _values(
    fetched: Sequence[tuple[Any, Any]], names: Mapping[str, str]
) -> dict[str, Any]:
    """Return the values of tensors that have a name here."""
    found: dict[str, Any] = {}
    for item, value in fetched:
        tensor = getattr(item, "name", "")
        if tensor in names:
            found[names[tensor] or f"output {len(found)}"] = value
    return found
