"""The modelled clock: what the plan says about a program that is about to run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from keras.src import tree

from ipu_runtime.engine.device import Device
from ipu_runtime.engine.keras_reader import ReadModel
from ipu_runtime.executable_cache import modelled_compile_s
from ipu_runtime.plan.plan import PipelineRequest, Plan, PlanRequest
from ipu_runtime.plan.planner import make_plan
from ipu_runtime.plan.problem import Severity


@dataclass(frozen=True, slots=True)
class Clock:
    """Modelled times of a program, or why there are none."""

    plan: Plan | None
    reason: str = ""
    """Why the program cannot be modelled; empty if it can."""
    compile_s: float = 0.0
    """Modelled time of compiling for the device, or loading; 0 if unknown."""

    @property
    def step_us(self) -> float:
        """Modelled time of one step on one replica; 0 if unknown."""
        return self.plan.ipu_step_us if self.plan else 0.0


@dataclass(frozen=True, slots=True)
class Workload:
    """What a program will do, as far as the plan needs to know."""

    batch_size: int
    batches: int
    """Of one epoch, over all replicas."""
    epochs: int
    steps_per_execution: int
    accumulation: int
    training: bool
    targets: Any = None
    """Types and shapes of the targets of one batch."""
    pipeline: PipelineRequest | None = None


def start_clock(
    model: Any, read: ReadModel | None, device: Device, work: Workload
) -> Clock:
    """Plan the program; raise if the device has no room for it."""
    if read is None:
        return Clock(
            None, f"the layer calls of {type(model).__name__} are hidden in its `call`"
        )
    if read.spec is None:
        return Clock(None, "; ".join(str(problem) for problem in read.problems))
    plan = make_plan(
        PlanRequest(
            model=read.spec,
            batch_size=work.batch_size,
            batches=work.batches,
            epochs=work.epochs,
            label_values=_values_per_sample(work.targets),
            steps_per_execution=work.steps_per_execution,
            gradient_accumulation=work.accumulation,
            optimizer=_optimizer_name(model) if work.training else "sgd",
            training=work.training,
            ipus=device.ipus,
            system=device.system,
            hardware_file=device.hardware_file,
            pipeline=work.pipeline,
            config=device.config,
        )
    )
    if device.check_memory:
        check_room(plan)
    if plan.step is None:
        return Clock(None, "; ".join(str(problem) for problem in plan.problems))
    program = "train" if work.training else "run"
    return Clock(plan, compile_s=modelled_compile_s(program, plan))


def check_room(plan: Plan) -> None:
    """Raise if the modelled device has no room for a program."""
    if not any(problem.severity is Severity.NO_FIT for problem in plan.problems):
        return
    fullest = max(plan.memory, key=lambda item: item.fullest_tile_bytes)
    excess = fullest.fullest_tile_bytes - fullest.tile_capacity_bytes
    raise tf.errors.ResourceExhaustedError(
        None,
        None,
        f"Memory allocation error : Out of memory on tile 0: "
        f"{fullest.fullest_tile_bytes} bytes used but tiles only have "
        f"{fullest.tile_capacity_bytes} bytes of memory. IPU {fullest.ipu} exceeds its "
        f"modelled memory by {excess} bytes on its fullest tile; set "
        "debug.allowOutOfMemory in POPLAR_ENGINE_OPTIONS to run nevertheless.",
    )


def _values_per_sample(targets: Any) -> int:
    if targets is None:
        return 0
    return sum(
        int(tf.TensorShape(spec.shape[1:]).num_elements() or 1)
        for spec in tree.flatten(targets)
        if spec is not None
    )


def _optimizer_name(model: Any) -> str:
    optimizer = model.optimizer
    name = type(optimizer).__name__.lower()
    if name == "sgd" and getattr(optimizer, "momentum", None):
        return "momentum"
    return name
