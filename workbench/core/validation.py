"""From TOML tables to an ExperimentSpec, with every problem found on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ipu_runtime.plan.field import Field, nearest
from ipu_runtime.plan.problem import Problem, Severity
from workbench.core.experiment_fields import EXPERIMENT_FIELDS
from workbench.core.experiment_rules import check_experiment
from workbench.core.experiment_spec import (
    Data,
    Execution,
    Experiment,
    ExperimentSpec,
    Figure,
    Model,
    Pipeline,
    Train,
)
from workbench.core.field_values import read_value
from workbench.core.ipu_tables import read_ipu
from workbench.core.resolved_model import read_layers, resolved

SECTIONS = ("experiment", "data", "model", "train", "execution", "pipeline", "ipu")
_EXTRA_KEYS = {
    "experiment": ("figures",),
    "model": ("layers", "blocks"),
}
_FIGURE_KEYS = ("epoch", "loss", "accuracy", "step_us", "seconds")


def _by_section() -> dict[str, dict[str, Field]]:
    sections: dict[str, dict[str, Field]] = {name: {} for name in SECTIONS}
    for field in EXPERIMENT_FIELDS:
        sections[field.group][field.name] = field
    return sections


_FIELDS = _by_section()


def validate(
    tables: Mapping[str, Any], file: str = ""
) -> tuple[ExperimentSpec | None, tuple[Problem, ...]]:
    """Return the experiment, or None, and all problems at once.

    Problems that are only warnings do not keep the experiment from being returned.
    """
    problems: list[Problem] = []
    spec = _read(tables, problems)
    if spec is not None:
        problems += check_experiment(spec)
    if any(item.severity is Severity.ERROR for item in problems):
        spec = None
    if file:
        problems = [replace(item, where=f"{file}: {item.where}") for item in problems]
    return spec, tuple(problems)


def _read(tables: Mapping[str, Any], problems: list[Problem]) -> ExperimentSpec | None:
    for name in tables:
        if name not in SECTIONS:
            problems.append(unknown(name, SECTIONS, "section"))
    sections = {}
    for name in SECTIONS:
        table = tables.get(name, {})
        if not isinstance(table, Mapping):
            problems.append(Problem(name, "must be a table", f"write it as [{name}]"))
            table = {}
        sections[name] = table
    values = {name: _read_section(name, sections[name], problems) for name in _FIELDS}
    if not values["experiment"]["title"]:
        hint = "one line that says what the experiment is"
        problems.append(Problem("experiment.title", "is missing", hint))
    figures = _read_figures(sections["experiment"].get("figures", []), problems)
    ipu = read_ipu(sections["ipu"], problems)
    layers, layer_problems = read_layers(sections["model"])
    problems += layer_problems
    model = Model(**values["model"], layers=layers)
    if not layer_problems:
        problems += resolved(model)[1]
    if any(item.severity is Severity.ERROR for item in problems):
        return None
    pipeline = values["pipeline"]
    for name in ("stages", "device_mapping", "locked"):
        pipeline[name] = tuple(pipeline[name])
    return ExperimentSpec(
        Experiment(**values["experiment"], figures=figures),
        Data(**values["data"]),
        model,
        Train(**values["train"]),
        Execution(**values["execution"]),
        Pipeline(**pipeline),
        ipu,
    )


def unknown(where: str, candidates: Any, what: str = "field") -> Problem:
    """Return the problem of a misspelt key, with what was probably meant."""
    name = where.rpartition(".")[2]
    guess = nearest(name, candidates)
    if guess:
        return Problem(where, f"unknown {what}, did you mean {guess}?")
    valid = f"valid: {', '.join(sorted(candidates))}"
    return Problem(where, f"unknown {what}", valid)


def _read_section(
    section: str, table: Mapping[str, Any], problems: list[Problem]
) -> dict[str, Any]:
    fields = _FIELDS[section]
    if section == "ipu":
        return {}
    extra = _EXTRA_KEYS.get(section, ())
    for key in table:
        if key not in fields and key not in extra:
            problems.append(unknown(f"{section}.{key}", (*fields, *extra)))
    values = {}
    for name, field in fields.items():
        if name not in table:
            values[name] = field.default
            continue
        values[name], problem = read_value(field, table[name], field.path)
        if problem:
            problems.append(problem)
    return values


def _read_figures(entries: Any, problems: list[Problem]) -> tuple[Figure, ...]:
    if not isinstance(entries, list):
        hint = "write it as [[experiment.figures]]"
        problems.append(Problem("experiment.figures", "must be a list of tables", hint))
        return ()
    figures = []
    for position, entry in enumerate(entries):
        where = f"experiment.figures[{position}]"
        if not isinstance(entry, Mapping):
            problems.append(Problem(where, "must be a table"))
            continue
        wrong = [_figure_problem(f"{where}.{key}", key, entry[key]) for key in entry]
        found = [problem for problem in wrong if problem]
        if "epoch" not in entry:
            found.append(Problem(f"{where}.epoch", "is missing"))
        problems += found
        if not found:
            figures.append(Figure(**entry))
    return tuple(figures)


def _figure_problem(where: str, key: str, value: Any) -> Problem | None:
    if key not in _FIGURE_KEYS:
        return unknown(where, _FIGURE_KEYS)
    if type(value) is int or (type(value) is float and key != "epoch"):
        return None
    kind = "a whole number" if key == "epoch" else "a number"
    return Problem(where, f"{value!r} is not {kind}", exception="TypeError")
