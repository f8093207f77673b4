"""A published figure beside the modelled one, and the file of all published ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ipu_runtime.plan.config.toml_reading import read_toml
from ipu_runtime.plan.plan import Plan
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.overrides import apply_overrides
from workbench.experiment.validation import validate

DIRECTORY = Path(__file__).parent


class NotPlanned(Exception):
    """A row has no figures, which only hardware of the user's own brings about."""


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """What somebody has measured, and the model's figure for the same."""

    name: str
    """By which it is found in the file."""
    title: str
    unit: str
    """Empty for a ratio."""
    published: float
    modelled: float
    source: str
    """Key of `sources`; empty for a ratio, whose rows have theirs."""

    @property
    def error(self) -> float:
        """By what share the model is off."""
        return self.modelled / self.published - 1


@lru_cache(maxsize=1)
def published() -> Mapping[str, Any]:
    """Return the content of published.toml."""
    return read_toml((DIRECTORY / "published.toml").read_text(encoding="utf-8"))


def sources() -> list[str]:
    """Return every source; readers see its place in this list, counted from 1."""
    return list(published()["sources"].values())


def source_number(source: str) -> int:
    """Return by which number readers know a source."""
    return list(published()["sources"]).index(source) + 1


def spec_of(
    name: str, tables: Mapping[str, Any], changes: Sequence[str] = ()
) -> ExperimentSpec:
    """Return the experiment of a row: that of our own files, with changes."""
    changed, problems = apply_overrides(tables, changes)
    spec, wrong = validate(changed)
    if spec is None or problems:
        raise NotPlanned(f"{name}: {[*problems, *wrong][0]}")
    return spec


def with_figures(plan: Plan, name: str) -> Plan:
    """Return a plan that has figures, and refuse one without."""
    if plan.step is None:
        why = plan.problems[0] if plan.problems else "there are no figures"
        raise NotPlanned(f"{name}: {why}")
    return plan
