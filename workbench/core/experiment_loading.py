"""An experiment as a command asks for it: preset, environment, changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ipu_runtime.plan.problem import Problem
from workbench.core.experiment_spec import ExperimentSpec
from workbench.core.overrides import (
    FIELD_OF_PATH,
    apply_overrides,
    environment_overrides,
    variable_of_field,
)
from workbench.core.preset_store import Preset, load_preset
from workbench.core.tables import field_value
from workbench.core.validation import validate


@dataclass(frozen=True)
class LoadedExperiment:
    """A preset with changes on top of it, checked."""

    preset: Preset
    tables: dict[str, Any]
    spec: ExperimentSpec | None
    """None when a problem keeps it from running."""
    problems: tuple[Problem, ...]
    sources: Mapping[str, str] = field(default_factory=dict)
    """Where the value of every field comes from."""


def load_experiment(
    name_or_path: str,
    changes: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
) -> LoadedExperiment:
    """Return a preset as changed by the environment and then by `a.b=c` changes."""
    preset = load_preset(name_or_path)
    from_environment = environment_overrides(environment or {})
    from_command = list(changes)
    tables, wrong_variables = apply_overrides(preset.tables, from_environment)
    tables, wrong_changes = apply_overrides(tables, from_command)
    spec, problems = validate(tables)
    # A change that was refused is not in the tables: what it would have repaired
    # would be reported although the user has dealt with it.
    refused = (*wrong_variables, *wrong_changes)
    return LoadedExperiment(
        preset,
        tables,
        None if refused else spec,
        refused or problems,
        _sources(preset, from_environment, from_command),
    )


def _sources(
    preset: Preset, from_environment: list[str], from_command: list[str]
) -> dict[str, str]:
    sources = {}
    for path in FIELD_OF_PATH:
        given = field_value(preset.tables, path) is not None
        sources[path] = preset.path.name if given else "default"
    for override in from_environment:
        path = override.partition("=")[0]
        sources[path] = variable_of_field(path)
    for override in from_command:
        sources[override.partition("=")[0].strip()] = "--set"
    return sources
