"""One pipeline run of a script's stages, built into the current graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.pipeline.graph_stages import (
    GraphStages,
    TracedStage,
    trace_stage,
)
from ipu_runtime.engine.build.pipeline.schedule_executor import (
    Combine,
    Tensors,
    run_schedule,
)
from ipu_runtime.engine.build.programs.accumulation import Accumulation
from ipu_runtime.engine.build.programs.gradient_capture import Captured, reduced_over
from ipu_runtime.engine.build.tracing_context import collected_scalars
from ipu_runtime.engine.describe.refusal import raise_for
from ipu_runtime.frameworks.patch_points import capturing_patch
from ipu_runtime.frameworks.patching import around
from ipu_runtime.plan.problem import Problem
from ipu_runtime.plan.rules.pipeline_rules import check_one_ipu
from ipu_runtime.plan.schedule.schedule import Recomputation, Schedule

GradientMap = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Update:
    """How the last stage's outputs become a weight update."""

    loss: Any
    variables: Sequence[Any]
    apply: Callable[[list[tuple[Any, Any]], Captured], Any]
    """Takes pairs of accumulated gradient, of its accumulator's type, and variable,
    and captured gradients; returns an operation."""
    gradient_maps: Sequence[GradientMap] = ()
    """Applied to every micro-batch's gradients."""


@dataclass(frozen=True)
class GraphPipeline:
    """A pipeline whose stages are Python functions."""

    stages: Sequence[Callable[..., Any]]
    schedule: Schedule
    accumulation: Accumulation
    inputs: Sequence[Any] = ()
    next_element: Callable[[], Any] | None = None
    """Takes the next element of the data, if the pipeline has a feed."""
    update: Callable[[Any], Update] | None = None
    """Called with the last stage's outputs while it is traced; None: inference."""
    accumulates_captured: bool = True
    """Whether captured gradients are accumulated; else those of the last count."""


@dataclass
class BuiltRun:
    """A pipeline run in the graph."""

    outputs: list[Any]
    """The last stage's outputs, structured, by micro-batch."""
    losses: Tensors
    """The loss of every micro-batch; empty for inference."""
    finished: Tensors
    scalars: dict[str, Tensors] = field(default_factory=dict)
    """What the last stage adds for whoever watches, by micro-batch."""
    update: Any = None
    """The weight update, which comes after everything else."""
    peak_stash: tuple[int, ...] = field(default=())


def build_run(pipeline: GraphPipeline) -> BuiltRun:
    """Trace the stages and run them once along the schedule."""
    tracer = _Tracer(pipeline)
    elements = _Elements(pipeline)
    stages = tracer.trace(elements.first)
    update = tracer.update
    training = update is not None
    variables = list(update.variables) if update is not None else []
    programs = GraphStages(
        stages,
        stages[-1].graph.outputs[-1] if training else None,
        variables,
        pipeline.schedule.recomputation is not Recomputation.OFF,
        _adjustment(pipeline.accumulation, update),
    )
    raise_for(_unshareable(pipeline.schedule, stages))
    run = run_schedule(
        pipeline.schedule,
        programs,
        elements.feed,
        _combination(pipeline.accumulation),
    )
    losses = [outputs[-1] for outputs in run.outputs] if training else []
    size = tracer.result_count
    results = [tracer.pack_outputs(outputs[:size]) for outputs in run.outputs]
    scalars = {
        name: [outputs[size + index] for outputs in run.outputs]
        for index, name in enumerate(tracer.scalar_names)
    }
    operation = None
    if update is not None:
        pairs = _merge(
            (gradient, variable)
            for stage, gradients in enumerate(run.gradients)
            for gradient, variable in zip(
                gradients, programs.variables(stage), strict=True
            )
        )
        combine = _combination(pipeline.accumulation)
        captured = reduced_over(
            [item for _, item in sorted(programs.captured.items())],
            combine if pipeline.accumulates_captured else None,
        )
        with (
            tf.control_dependencies([*run.finished, *losses]),
            _standing_in(tracer.update_tensors(run.outputs[-1])),
        ):
            operation = update.apply(list(pairs.values()), captured)
    return BuiltRun(results, losses, run.finished, scalars, operation, run.peak_stash)


class _Elements:
    """Gives every micro-batch its inputs, in the order of the data."""

    def __init__(self, pipeline: GraphPipeline) -> None:
        self._pipeline = pipeline
        self._last: list[Any] = []
        self.first = self._take()

    def _take(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        pipeline = self._pipeline
        if pipeline.next_element is None:
            return tuple(pipeline.inputs), {}
        with tf.control_dependencies(self._last):
            element = pipeline.next_element()
        self._last = [tf.nest.flatten(element)[0].op]
        if isinstance(element, dict) and all(isinstance(key, str) for key in element):
            return tuple(pipeline.inputs), element
        parts = element if isinstance(element, tuple) else (element,)
        return (*pipeline.inputs, *parts), {}

    def feed(self, micro_batch: int) -> Tensors:
        """Return the first stage's inputs; those of the first one are taken already."""
        args, kwargs = self.first if micro_batch == 0 else self._take()
        return [tf.convert_to_tensor(item) for item in tf.nest.flatten((args, kwargs))]


class _Tracer:
    """Traces stage after stage, each on what the one before returns."""

    def __init__(self, pipeline: GraphPipeline) -> None:
        self._pipeline = pipeline
        self._structure: Any = None
        self.update: Update | None = None
        self.result_count = 0
        self.scalar_names: list[str] = []
        self._kept: Tensors = []

    def trace(self, first: tuple[tuple[Any, ...], Mapping[str, Any]]) -> list[Any]:
        """Return the traced stages."""
        structure: Any = first
        flat = [tf.convert_to_tensor(item) for item in tf.nest.flatten(first)]
        stages: list[TracedStage] = []
        last = len(self._pipeline.stages) - 1
        for index, function in enumerate(self._pipeline.stages):
            body = self._flat_stage(function, structure, index == last)
            stage = trace_stage(index, body, flat)
            stages.append(stage)
            flat = stage.graph.outputs
            structure = (_as_arguments(self._structure), {})
        return stages

    def _flat_stage(
        self, function: Callable[..., Any], structure: Any, last: bool
    ) -> Callable[..., list[Any]]:
        def stage(*flat: Any) -> list[Any]:
            args, kwargs = tf.nest.pack_sequence_as(structure, list(flat))
            with collected_scalars() as scalars:
                outputs = function(*args, **kwargs)
            if outputs is None:
                outputs = ()
            self._structure = outputs
            tensors = [tf.convert_to_tensor(item) for item in tf.nest.flatten(outputs)]
            self.result_count = len(tensors)
            if last and self._pipeline.update is not None:
                graph = tf.compat.v1.get_default_graph()
                before = len(graph.get_operations())
                self.update = self._pipeline.update(outputs)
                made = graph.get_operations()[before:]
                self._kept = [*tensors, *_values_of(made)]
                self.scalar_names = list(scalars)
                hidden = self._kept[len(tensors) :]
                tensors += [*scalars.values(), *hidden, self.update.loss]
            return tensors

        return stage

    def update_tensors(self, outputs: Tensors) -> dict[int, Any]:
        """Return what stands for tensors that the update may refer to.

        These are the last stage's results, and what the optimizer function made of
        them, for example a learning rate; their values are those of `outputs`.
        """
        hidden = self.result_count + len(self.scalar_names)
        values = [*outputs[: self.result_count], *outputs[hidden:-1]]
        return {
            id(tensor): value for tensor, value in zip(self._kept, values, strict=True)
        }

    def pack_outputs(self, flat: Tensors) -> Any:
        """Return the last stage's outputs as it returned them."""
        return tf.nest.pack_sequence_as(self._structure, flat)


def _values_of(operations: Sequence[Any]) -> Tensors:
    return [
        tensor
        for operation in operations
        for tensor in operation.outputs
        if tensor.dtype not in (tf.resource, tf.variant)
    ]


@contextmanager
def _standing_in(values: Mapping[int, Any]) -> Iterator[None]:
    """Let tensors of a stage's graph mean other ones in the current graph."""

    def capture(original: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        value = values.get(id(tensor))
        return original(tensor, *args, **kwargs) if value is None else value

    graph = tf.compat.v1.get_default_graph()
    with capturing_patch(graph, around(capture)).applied():
        yield


def _adjustment(
    accumulation: Accumulation, update: Update | None
) -> Callable[[Any, Any], Any]:
    """Return what is done to a micro-batch's gradient before it is accumulated."""

    def adjust(gradient: Any, variable: Any) -> Any:
        for change in update.gradient_maps if update is not None else ():
            gradient = change(gradient, variable)
        return tf.cast(gradient, accumulation.type_for(variable))

    return adjust


def _combination(accumulation: Accumulation) -> Combine:
    """Return how gradients, of their accumulators' types already, are accumulated."""
    method = replace(accumulation, dtype=None)

    def combine(so_far: Tensors | None, new: Tensors, micro_batch: int) -> Tensors:
        accumulators = method.zeros(new) if so_far is None else so_far
        return method.add(accumulators, new, micro_batch)

    return combine


def _as_arguments(outputs: Any) -> tuple[Any, ...]:
    return tuple(outputs) if isinstance(outputs, (list, tuple)) else (outputs,)


def _merge(pairs: Any) -> dict[int, tuple[Any, Any]]:
    """Sum the gradients of a variable that several stages use."""
    merged: dict[int, tuple[Any, Any]] = {}
    for gradient, variable in pairs:
        key = id(variable.handle)
        if key in merged:
            gradient = merged[key][0] + gradient
        merged[key] = (gradient, variable)
    return merged


def _unshareable(
    schedule: Schedule, stages: Sequence[TracedStage]
) -> Iterator[Problem]:
    """Yield variables that are used by stages on several IPUs."""
    users: dict[int, dict[int, Any]] = {}
    for index, stage in enumerate(stages):
        for outer, _ in stage.graph.captures:
            if outer.dtype == tf.resource:
                users.setdefault(id(outer), {})[index] = outer
    for by_stage in users.values():
        handle = next(iter(by_stage.values()))
        # Handles of a `tf.function` are eager tensors of the host, without a name.
        name = f": they use {handle.op.name}" if tf.is_symbolic_tensor(handle) else ""
        yield from check_one_ipu(
            f"stages {', '.join(map(str, by_stage))}",
            (schedule.device_mapping[index] for index in by_stage),
            f"map them to one IPU{name}",
        )
