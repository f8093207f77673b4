"""What a command line or a test decides about the app."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workbench.scripts.script_command import ScriptCommand
from workbench.settings import Settings, load_settings
from workbench.ui.controllers.run_board import Runner


def real_runner(*arguments: Any, **options: Any) -> Any:
    """Execute an experiment; what it needs is loaded by the run's own thread."""
    from workbench.charts.plotting import load_plotext
    from workbench.runs.runner import run_experiment

    load_plotext()  # Or the screen would stand still when it draws the first point.
    return run_experiment(*arguments, **options)


@dataclass(frozen=True)
class AppOptions:
    """What a command line or a test decides about the app."""

    theme: str = ""
    ascii_only: bool = False
    preset: str = ""
    runner: Runner = real_runner
    clock: Callable[[], float] = time.time
    settings: Settings = field(default_factory=load_settings)
    script: ScriptCommand | None = None
    """Run as soon as the app is there."""
    obeys_signals: bool = False
    """Whether SIGTERM and SIGINT make it leave; they belong to the whole process."""
