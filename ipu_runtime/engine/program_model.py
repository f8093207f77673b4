"""What the plan says about an estimator's program."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from ipu_runtime.engine.observer import current_observer


@dataclass
class ProgramModel:
    """A program with its modelled figures."""

    name: str
    started: float
    ipu_step_us: float = 0.0
    ipu_compile_s: float = 0.0

    def finish(self) -> None:
        """Tell that the program is ready to run."""
        observer = current_observer()
        if observer is not None:
            seconds = time.perf_counter() - self.started
            observer.compiled(self.name, seconds, self.ipu_compile_s)


def model_program(
    program: Any, name: str, placement: Any, infeed: Any, started: float
) -> ProgramModel:
    """Return the modelled figures of a program that was just built."""
    return ProgramModel(name, started)
