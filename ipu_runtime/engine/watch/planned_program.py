"""The plan of a program, as everybody sees it who watches the program."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_runtime.plan.plan import Plan
from ipu_runtime.plan.request import PlanRequest


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """The plan of one program, or why there is none."""

    request: PlanRequest | None
    """What the plan was asked; None if the program's layers are not known."""
    plan: Plan | None
    reason: str = ""
    """Why the program cannot be modelled; empty if it can."""
    compile_s: float = 0.0
    """Modelled time of compiling for the device, or loading; 0 if unknown."""

    @property
    def step_us(self) -> float:
        """Modelled time of one step on one replica; 0 if unknown."""
        return self.plan.ipu_step_us if self.plan else 0.0
