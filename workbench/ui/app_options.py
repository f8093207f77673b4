"""What a command line or a test decides about the app."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from workbench.scripts.script_command import ScriptCommand
from workbench.services.started_run import Runner
from workbench.settings import Settings, load_settings


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
    settings: Settings = field(default_factory=load_settings)
    script: ScriptCommand | None = None
    """Run as soon as the app is there."""
    obeys_signals: bool = False
    """Whether SIGTERM and SIGINT make it leave; they belong to the whole process."""
