"""From TOML tables to an ExperimentSpec, with every problem found on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ipu_runtime.plan.config.field import Field, nearest
from ipu_runtime.plan.problem import Problem, Severity, deciding_first
from workbench.experiment.data_tables import function_data
from workbench.experiment.experiment_fields import EXPERIMENT_FIELDS
from workbench.experiment.experiment_rules import check_experiment
from workbench.experiment.experiment_spec import (
    Data,
    Execution,
    Experiment,
    ExperimentSpec,
    Figure,
    Model,
    Pipeline,
    Train,
)
from workbench.experiment.field_values import read_value
from workbench.experiment.ipu_tables import read_ipu
from workbench.experiment.layer_blocks import LAYER_KEYS, LAYERS_OF
from workbench.experiment.model_tables import (
    CONTENT,
    TRUSTED,
    sourced_model,
)
from workbench.experiment.resolved_model import read_layers, resolved

SECTIONS = ("experiment", "data", "model", "train", "execution", "pipeline", "ipu")
_EXTRA_KEYS = {
    "experiment": ("figures",),
    "data": (CONTENT, TRUSTED),
    "model": (*LAYER_KEYS, LAYERS_OF, CONTENT, TRUSTED),
}
_FIGURE_KEYS = ("epoch", "loss", "accuracy", "step_us", "seconds")


def _by_section() -> dict[str, dict[str, Field]]:
    sections: dict[str, dict[str, Field]] = {}
    for field in EXPERIMENT_FIELDS:
        sections.setdefault(field.group, {})[field.name] = field
    return sections


_FIELDS = _by_section()


def validate(
    tables: Mapping[str, Any], file: str = ""
) -> tuple[ExperimentSpec | None, tuple[Problem, ...]]:
    """Return the experiment, or None, and all problems at once.

    Problems that are only warnings do not keep the experiment from being returned.
    """
    reading = _Reading(tables)
    spec = reading.read()
    problems = [*reading.problems, *check_experiment(spec, reading.doubtful)]
    if file:
        problems = [replace(item, where=f"{file}: {item.where}") for item in problems]
    found = deciding_first(problems)
    wrong = any(item.severity is Severity.ERROR for item in problems)
    return None if wrong else spec, found


def understood(tables: Mapping[str, Any]) -> ExperimentSpec:
    """Return the experiment as far as it can be understood, wrong values left out."""
    return _Reading(tables).read()


class _Reading:
    """Tables being read: a value that is wrong is noted and replaced by its default."""

    def __init__(self, tables: Mapping[str, Any]) -> None:
        self.tables = tables
        self.problems: list[Problem] = []
        self.doubtful: set[str] = set()
        """Fields whose value the user did not mean."""

    def read(self) -> ExperimentSpec:
        """Return the experiment, as far as it can be understood."""
        for name in self.tables:
            if name not in SECTIONS:
                self._unknown(name, SECTIONS, "section")
        experiment = self._fields("experiment")
        if not experiment["title"] and "experiment.title" not in self.doubtful:
            hint = "one line that says what the experiment is"
            self.problems.append(Problem("experiment.title", "is missing", hint))
        for name in ("name", "title", "group"):
            if "\n" in experiment[name]:
                self.problems.append(Problem(f"experiment.{name}", "must be one line"))
        pipeline = self._fields("pipeline")
        for name in ("stages", "device_mapping", "locked"):
            pipeline[name] = tuple(pipeline[name])
        return ExperimentSpec(
            Experiment(**experiment, figures=self._figures()),
            self._data(),
            self._model(),
            self._train(),
            Execution(**self._fields("execution")),
            Pipeline(**pipeline),
            self._ipu(),
        )

    def _section(self, name: str) -> Mapping[str, Any]:
        table = self.tables.get(name, {})
        if isinstance(table, Mapping):
            return table
        self.problems.append(Problem(name, "must be a table", f"write it as [{name}]"))
        self.doubtful.update(f"{name}.{key}" for key in _FIELDS.get(name, ()))
        return {}

    def _fields(self, section: str) -> dict[str, Any]:
        fields, table = _FIELDS[section], self._section(section)
        extra = _EXTRA_KEYS.get(section, ())
        for key in table:
            if key not in fields and key not in extra:
                self._unknown(f"{section}.{key}", (*fields, *extra))
        values = {}
        for name, field in fields.items():
            if name not in table:
                values[name] = field.default
                continue
            values[name], problem = read_value(field, table[name], field.path)
            if problem:
                values[name] = field.default
                self.problems.append(problem)
                self.doubtful.add(field.path)
        return values

    def _unknown(self, where: str, candidates: Any, what: str = "field") -> None:
        group, _, name = where.rpartition(".")
        guess = nearest(name, candidates)
        if guess is None:
            valid = f"valid: {', '.join(sorted(candidates))}"
            self.problems.append(Problem(where, f"unknown {what}", valid))
            return
        text = f"unknown {what}, did you mean {guess}?"
        self.problems.append(Problem(where, text))
        meant = [f"{guess}.{key}" for key in _FIELDS.get(guess, ())]
        self.doubtful.update([f"{group}.{guess}"] if group else [guess, *meant])

    def _train(self) -> Train:
        fields = self._fields("train")
        return Train(**{**fields, "losses": tuple(fields["losses"])})

    def _data(self) -> Data:
        fields = self._fields("data")
        data, problems = function_data(fields, self._section("data"))
        if problems:
            self.doubtful.add("data.dataset")
        self.problems += problems
        return data

    def _model(self) -> Model:
        fields = self._fields("model")
        fields["input_shape"] = tuple(fields["input_shape"])
        if fields["source"]:
            model, problems = sourced_model(fields, self._section("model"))
        else:
            layers, problems = read_layers(self._section("model"))
            model = Model(**fields, layers=layers)
        if not problems:
            problems = resolved(model)[1]
        if problems:
            self.doubtful.add("model.layers")
        self.problems += problems
        return model

    def _ipu(self) -> dict[str, Any]:
        problems: list[Problem] = []
        values = read_ipu(self._section("ipu"), problems)
        for problem in problems:
            if problem.severity is Severity.ERROR:
                values.pop(problem.where.removeprefix("ipu."), None)
                self.doubtful.update(("ipu", problem.where))
        self.problems += problems
        return values

    def _figures(self) -> tuple[Figure, ...]:
        entries = self._section("experiment").get("figures", [])
        if not isinstance(entries, list):
            hint = "write it as [[experiment.figures]]"
            problem = Problem("experiment.figures", "must be a list of tables", hint)
            self.problems.append(problem)
            return ()
        figures = []
        for position, entry in enumerate(entries):
            where = f"experiment.figures[{position}]"
            problems = figure_problems(entry, where)
            self.problems += problems
            if not problems:
                figures.append(Figure(**entry))
        return tuple(figures)


def figure_problems(entry: Any, where: str) -> list[Problem]:
    """Return what is wrong with one of the document's figures."""
    if not isinstance(entry, Mapping):
        return [Problem(where, "must be a table")]
    problems = []
    for key, value in entry.items():
        whole = key == "epoch"
        if key not in _FIGURE_KEYS:
            hint = f"valid: {', '.join(_FIGURE_KEYS)}"
            problems.append(Problem(f"{where}.{key}", "unknown field", hint))
        elif type(value) is not int and (whole or type(value) is not float):
            text = f"{value!r} is not {'a whole number' if whole else 'a number'}"
            problems.append(Problem(f"{where}.{key}", text, exception="TypeError"))
    if "epoch" not in entry:
        problems.append(Problem(f"{where}.epoch", "is missing"))
    return problems
