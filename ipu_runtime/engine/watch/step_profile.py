"""The modelled step of a program beside the measured one."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_runtime.engine.watch.observer import ProgramPlan
from ipu_runtime.plan.plan import Plan, StepTime
from ipu_runtime.plan.step_parts import step_parts, step_words


@dataclass(frozen=True)
class IpuProfile:
    """What is known after `fit`, `evaluate` or `predict` has run."""

    program: str
    """`train`, `test` or `predict`."""
    host_step_ms: float
    """Measured here: wall time of one step of all replicas."""
    planned: ProgramPlan
    steps: int
    """Steps of each replica in that call."""
    executions: int
    peak_stash: tuple[int, ...] = ()
    """Most micro-batches that each pipeline stage kept, the one in work included."""
    executor: str = ""
    """Which of TensorFlow's executors ran it here, and why."""

    @property
    def plan(self) -> Plan | None:
        """The plan behind the modelled figures; None if there is none."""
        return self.planned.plan

    @property
    def step(self) -> StepTime | None:
        """Modelled parts of a step on one replica; None if it cannot be modelled."""
        return self.plan.step if self.plan else None

    @property
    def ipu_step_us(self) -> float:
        """Modelled time of a step on one replica; 0 if it cannot be modelled."""
        return self.planned.step_us

    @property
    def compile_s(self) -> float:
        """Modelled time of compiling, or of loading a cached executable."""
        return self.planned.compile_s

    @property
    def not_modelled(self) -> str:
        """Why there is no modelled time; empty if there is one."""
        return self.planned.reason

    def __str__(self) -> str:
        replicas = self.plan.replicas if self.plan else 1
        measured = (
            f"{self.program}: measured {self.host_step_ms:.3f} ms per step, in which "
            f"{step_words(replicas)}"
        )
        if self.executor:
            measured += f" ({self.executor})"
        step = self.step
        if step is None:
            return f"{measured}; not modelled: {self.not_modelled}"
        shown = ", ".join(f"{part.title} {part.us:.1f}" for part in step_parts(step))
        return f"{measured}; modelled {step.total_us:.1f} µs on the IPU ({shown})"
