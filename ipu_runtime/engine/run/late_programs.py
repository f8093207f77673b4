"""Programs in a session's graph, whose device may be configured after they are built.

[Note: Programs that are built late]
Scripts of TensorFlow 1 call `ipu_compiler.compile`, configure the system next and open
a session last. How many replicas a program has is decided by the device as it is when
the session runs. What must hold:

- A program stands in the graph as soon as it is compiled, for the device as it is then:
  scripts look at its shapes, and name its tensors.
- What a script holds of it are identities after `_done`, and never the tensors of a
  replica. A program that is built for other replicas takes the place of the old one
  behind these identities: `_rebuild` gives them other inputs. The old operations stay
  in the graph, and nothing needs them.
- A graph that a session has run cannot be changed: TensorFlow has copied it. So it is
  an error if the device has other replicas after the first `Session.run`.
- Nobody calls us when a session runs. `tf.compat.v1.Session.run` is patched for good;
  it looks at the graph's collection of programs, which lives as long as the
  graph. Sessions of graphs without programs of ours run as before.
- A session may run several programs in one call, and only what it fetches: whether it
  runs a program is told by what the fetched operations need.
- Inside of a `tf.function` there is no session: the program is what it is when traced.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.replicas.device_loop import TracedProgram
from ipu_runtime.engine.describe.call_graph import operations_before
from ipu_runtime.engine.run.script_program import ScriptProgram
from ipu_runtime.frameworks.patch_points import session_patches
from ipu_runtime.frameworks.patching import around
from ipu_runtime.frameworks.tensorflow_graphs import (
    replace_input,
    wait_for_nothing_but,
)
from ipu_runtime.frameworks.types import Session, Tensor
from ipu_runtime.system.instance_exchange import lost_instances_named

_PROGRAMS = "ipu_programs"
"""Collection of a graph that keeps its programs as long as the graph lives."""


def late_program(
    traced: TracedProgram,
    replicas: Callable[[], int],
    started: Callable[[], None],
    watched: ScriptProgram | None,
) -> Any:
    """Build a program for the device as it is when a session runs it.

    Args:
        traced: The program of one replica.
        replicas: Says how many the device has room for now.
        started: Called before the program runs for the first time.
        watched: Who is told of its executions.
    """
    program = _LateProgram(traced, replicas, started, watched)
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
        traced: TracedProgram,
        replicas: Callable[[], int],
        started: Callable[[], None],
        watched: ScriptProgram | None,
    ) -> None:
        self._traced, self._replicas, self._started = traced, replicas, started
        self._watched = watched
        self._needed_by: dict[str, bool] = {}
        self.graph = tf.compat.v1.get_default_graph()
        self._count = replicas()
        self._has_run = False
        self._begun: weakref.WeakSet[Session] = weakref.WeakSet()
        built = traced.build(self._count)
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
        return self._watched is not None or self._first_values.instance.count > 1

    def run(
        self, run: Callable[[], Any], session: Session, fetched: Sequence[Any]
    ) -> Any:
        """Run a session that may run this program, and tell who watches.

        All processes have the same variables when a session first runs it.
        """
        executes, watched = self.runs_for(fetched), self._watched
        with lost_instances_named(self._first_values.instance):
            if executes and session not in self._begun:
                self._begun.add(session)
                self._first_values.take(session)
            if watched is None:
                return run()
            results = watched.execute(run, self._count) if executes else run()
            flat = tf.nest.flatten(results)
            if len(flat) == len(fetched):
                named = list(zip(fetched, flat, strict=True))
                if executes:
                    made = {tensor.name: "" for tensor in self._outputs}
                    watched.returned(_values(named, made))
                if taken := _values(named, watched.dequeued):
                    watched.took(taken)
            return results

    def _rebuild(self, count: int) -> None:
        self._count = count
        with self.graph.as_default(), tf.control_dependencies(None):
            built = self._traced.build(count)
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
) -> dict[str, Tensor]:
    """Return the values of tensors that have a name here."""
    found: dict[str, Tensor] = {}
    for item, value in fetched:
        tensor = getattr(item, "name", "")
        if tensor in names:
            found[names[tensor] or f"output {len(found)}"] = value
    return found
