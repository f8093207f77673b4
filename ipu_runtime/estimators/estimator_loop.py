"""The loop of an estimator's mode: what is the same for a model and for a pipeline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from ipu_runtime.engine.build.programs.executable import SessionLoop
from ipu_runtime.engine.build.replicas.device_loop import DeviceLoop, build_loop
from ipu_runtime.engine.build.tracing_context import MOST_SCALARS
from ipu_runtime.engine.describe.model_scope import LayerUse, model_scope
from ipu_runtime.engine.describe.placement import current_placement
from ipu_runtime.estimators.tf_estimator import ModeKeys
from ipu_runtime.frameworks.tensorflow_variables import ASSIGNMENTS
from ipu_runtime.frameworks.types import Operation, Structure, Tensor, Variable
from ipu_runtime.ipu_run_config import RunConfig
from ipu_runtime.plan.schedule.schedule import Schedule
from ipu_runtime.system.instances import Instance


@dataclass(frozen=True)
class HostSide:
    """What the host does with the results of a loop."""

    after_loop: Mapping[str, Structure] = field(default_factory=dict)
    """What it fetches after each loop."""
    finals: Mapping[str, Structure] = field(default_factory=dict)
    """What it fetches once at the end, by name of the result."""
    operation: Any = None
    """Runs on the host after each loop."""


class LoopContents(ABC):
    """What an iteration of the loop consists of."""

    mode: str
    spec: Any
    """What the model function has returned; known after an iteration."""
    steps: int = 1
    """Steps that the global step counts for an iteration."""
    batches: int = 1
    """Micro-batches of an iteration, on one replica."""
    iterations: int | None = None
    """Of a loop, which must suit the optimizer; None if it suits any."""
    shows_first_replica: bool = False
    """Whether the loss of the first replica is reported, not the mean over all."""
    accumulation: int | None = None
    """Micro-batches of a weight update; None: as the optimizer says."""
    sums_micro_batches: bool = False
    """Whether an update takes their sum, unless the optimizer says it."""
    schedule: Schedule | None = None
    """The pipeline's schedule, for a pipeline."""
    placements: Mapping[str, bool] = MappingProxyType({})
    """Where things of the pipeline live, by the names of a `PipelineRequest`."""
    peak_stash: tuple[int, ...] = ()
    """Most micro-batches that waited at each stage; known after an iteration."""

    @abstractmethod
    def iteration(self) -> tuple[dict[str, Tensor], list[Operation]]:
        """Build one iteration; return scalars to report, and what must be run."""

    @abstractmethod
    def must_exchange(self, replicas: int) -> bool:
        """Tell whether replicas have to exchange something in the loop."""

    @abstractmethod
    def host_side(self) -> HostSide:
        """Build what the host does with the results."""


@dataclass(frozen=True)
class EstimatorProgram:
    """A loop in a graph, the host's side of it, and what its plan is asked."""

    loop: SessionLoop
    host: HostSide
    iterations: int
    """Of the loop."""
    steps: int
    """Steps that the global step counts for an iteration."""
    accumulation: int
    """Micro-batches of one weight update, on one replica."""
    sums_micro_batches: bool
    """Whether an update takes their sum."""
    replicas: int
    instance: Instance
    """This process among those that run the program together."""
    broadcasts: Sequence[Operation]
    layer_uses: Sequence[LayerUse]
    hooks: Sequence[Any]
    """Hooks that the model function asks for."""
    schedule: Schedule | None
    placements: Mapping[str, bool]

    @property
    def loop_batches(self) -> int:
        """Batches of a loop, over all replicas."""
        return self.iterations * self.loop.unit


def build_program(
    make_contents: Callable[[], LoopContents], config: RunConfig
) -> EstimatorProgram:
    """Build the loop of a mode in the current graph.

    Args:
        make_contents: Calls the functions of the script, at least partly.
        config: How long the loop is, and the seed of what is random.
    """
    placement = current_placement()
    assert placement is not None
    names: list[str] = []
    # Layers are made by an iteration, or already by the model function of a pipeline.
    with model_scope(config.tf_random_seed) as scope:
        contents = make_contents()
        iterations = config.ipu_run_config.iterations_per_loop // contents.steps
        wanted = tf.compat.v1.placeholder_with_default(
            tf.constant(iterations), [], name="iterations"
        )

        def body(index: Tensor, *sums: Tensor) -> tuple[list[Tensor], list[Operation]]:
            scalars, operations = contents.iteration()
            names.extend(scalars)
            if contents.mode == ModeKeys.TRAIN:
                operations.append(count_steps(contents.steps, operations))
            return [index + 1, *_added(sums, list(scalars.values()))], operations

        loop = build_loop(
            lambda index, *_: index < wanted,
            body,
            [tf.constant(0), *[tf.constant(0.0, tf.float64)] * MOST_SCALARS],
            placement.replica_count,
            iterations=contents.iterations,
            needs_exchange=lambda: contents.must_exchange(placement.replica_count()),
        )
    accumulation = contents.accumulation
    hooks = {
        ModeKeys.TRAIN: contents.spec.training_hooks,
        ModeKeys.EVAL: contents.spec.evaluation_hooks,
        ModeKeys.PREDICT: contents.spec.prediction_hooks,
    }
    sums = dict(zip(names, _loop_sums(loop, contents), strict=False))
    replicas = len(loop.carried)
    unit = contents.batches * replicas
    return EstimatorProgram(
        SessionLoop(wanted, sums, loop.operation, unit, contents.peak_stash),
        contents.host_side(),
        iterations,
        contents.steps,
        loop.accumulation if accumulation is None else accumulation,
        loop.sums if accumulation is None else contents.sums_micro_batches,
        replicas,
        loop.instance,
        loop.broadcasts,
        scope.layer_uses,
        hooks[contents.mode],
        contents.schedule,
        contents.placements,
    )


def _added(sums: Sequence[Tensor], scalars: list[Tensor]) -> list[Tensor]:
    """Return sums of doubles, the same however the loop is cut into pieces."""
    # The loop's shape is fixed before anybody knows how many scalars there are.
    scalars += [tf.constant(0.0)] * (len(sums) - len(scalars))
    scalars = [tf.cast(scalar, tf.float64) for scalar in scalars]
    return [old + new for old, new in zip(sums, scalars, strict=True)]


def _loop_sums(loop: DeviceLoop, contents: LoopContents) -> list[Tensor]:
    by_replica = [carried[1:] for carried in loop.carried]
    if contents.shows_first_replica:
        return by_replica[0]
    return [
        tf.add_n(list(parts)) / float(len(parts))
        for parts in zip(*by_replica, strict=True)
    ]


def count_steps(steps: int, after: Sequence[Operation]) -> Operation:
    """Return an operation that advances the step, after everything that reads it.

    Training counts it on the device, so that schedules of learning rates can read it.
    """
    step = tf.compat.v1.train.get_global_step()
    with tf.control_dependencies([*after, *_users(step)]):
        return step.assign_add(steps, read_value=False)


def check_step_untouched() -> None:
    """Raise if the program being built advances the global step itself."""
    step = tf.compat.v1.train.get_global_step()
    if any(operation.type in ASSIGNMENTS for operation in _users(step)):
        raise ValueError(
            "Illegal increment of the `global_step` in model_fn: the estimator "
            "counts steps itself. Leave out `global_step` in minimize()."
        )


def _users(step: Variable) -> list[Operation]:
    """Return the operations of the program being built that use the step."""
    graph = tf.compat.v1.get_default_graph()
    inner = {outer.name: inner.name for outer, inner in graph.captures}
    name = inner.get(step.handle.name)
    return [
        operation
        for operation in graph.get_operations()
        if any(tensor.name == name for tensor in operation.inputs)
    ]
