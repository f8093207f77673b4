"""An experiment while it is being changed, with undo and the way back to the preset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ipu_runtime.plan.config.field import Kind
from ipu_runtime.plan.problem import Problem, Severity, deciding_first
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.field_differences import differences
from workbench.experiment.field_values import parse_value, value_text
from workbench.experiment.overrides import set_value
from workbench.experiment.preset_store import Preset
from workbench.experiment.tables import value_in

if TYPE_CHECKING:
    from ipu_runtime.plan.model.model_spec import Layer, ModelSpec
    from ipu_runtime.plan.plan import Plan


Check = Callable[[Mapping[str, Any]], tuple[Problem, ...]]


class Draft:
    """The values of an experiment, each change kept so that it can be undone."""

    def __init__(self, preset: Preset, also: Check = lambda tables: ()) -> None:
        """Begin with a preset; `also` tells what else is wrong with its values."""
        self.preset, self._also = preset, also
        self.on_change: Callable[[], None] = lambda: None
        """Called after every change, by whoever makes it."""
        self._states: list[Mapping[str, Any]] = [preset.tables]
        self._position = 0
        self._checked: _Checked | None = None
        self._planned: tuple[ExperimentSpec, Plan] | None = None
        self._changes: tuple[Mapping[str, Any], dict[str, Any]] = (preset.tables, {})
        self._last_good: Plan | None = None
        self._preset_plan: Plan | None = None

    @property
    def tables(self) -> Mapping[str, Any]:
        """The experiment as nested tables."""
        return self._states[self._position]

    def _check(self) -> _Checked:
        tables = self.tables
        if self._checked is None or self._checked.tables is not tables:
            spec, problems = check_tables(tables)
            self._checked = _Checked(tables, spec, (*problems, *self._also(tables)))
        return self._checked

    @property
    def spec(self) -> ExperimentSpec | None:
        """The experiment, or None while a value is wrong."""
        return self._check().spec

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that is wrong or worth a warning, plan included."""
        found = self.preset.problems + self._check().problems
        planned = self._plan_of_values()
        return deciding_first((*found, *(planned.problems if planned else ())))

    @property
    def valid(self) -> bool:
        """Whether the figures of `plan` are those of the present values."""
        return all(item.severity is not Severity.ERROR for item in self.problems)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers that have a stage, as far as the model can be understood."""
        model = _model(self.spec, self.tables)
        return model.stage_layers if model else ()

    @property
    def stages(self) -> tuple[int, ...]:
        """Stage of every layer; a list that cannot be one is repaired."""
        model = _model(self.spec, self.tables)
        if model is None:
            return ()
        values = self.value("pipeline.stages")
        values = values if isinstance(values, list | tuple) else []
        stages = [stage for stage in values if type(stage) is int and stage >= 0]
        if not stages:
            return (0,) * len(model.stage_layers)
        if len(stages) == len(model.stage_layers):
            return tuple(stages)
        # It loads NumPy, which the first frame can do without.
        from ipu_runtime.plan.rules.stage_rules import repaired_stages

        return repaired_stages(model, stages)

    def _plan_of_values(self) -> Plan | None:
        spec = self.spec
        if spec is None:
            return None
        if self._planned is None or self._planned[0] is not spec:
            self._planned = (spec, _plan(spec))
            if _has_figures(self._planned[1]):
                self._last_good = self._planned[1]
        return self._planned[1]

    @property
    def plan(self) -> Plan | None:
        """The plan of the values; of the last valid ones while a value is wrong."""
        planned = self._plan_of_values()
        if planned is not None and _has_figures(planned):
            return planned
        return self._last_good or self.preset_plan

    @property
    def preset_plan(self) -> Plan | None:
        """The plan of the preset as it came; None if the preset is wrong itself."""
        if self._preset_plan is None:
            spec, _ = check_tables(self.preset.tables)
            self._preset_plan = _plan(spec) if spec else None
        return self._preset_plan

    @property
    def blocking(self) -> Problem | None:
        """What has to be fixed first before the experiment can start."""
        blocking = (p for p in self.problems if p.severity is not Severity.WARNING)
        return next(blocking, None)

    @property
    def why_not_run(self) -> str:
        """Why the experiment cannot start; empty when it can."""
        return str(self.blocking or "")

    def problem_at(self, path: str) -> Problem | None:
        """Return the worst problem of a field."""
        here = [told for item in self.problems if (told := item.at(path))]
        order = (Severity.ERROR, Severity.NO_FIT, Severity.WARNING)
        return min(here, key=lambda item: order.index(item.severity), default=None)

    def value(self, path: str) -> Any:
        """Return a field's value, its default if it is not set."""
        return value_in(self.tables, path)

    def text(self, path: str) -> str:
        """Return a field's value as it is typed."""
        return value_text(self.value(path))

    def preset_text(self, path: str) -> str:
        """Return the preset's value of a field as it is typed."""
        return value_text(value_in(self.preset.tables, path))

    def changes(self) -> Mapping[str, Any]:
        """Return the fields that differ from the preset, with their values."""
        tables = self.tables
        if self._changes[0] is not tables:
            found = differences(tables, self.preset.tables, described=True)
            changes = {
                item.path: item.values[0]
                for item in found
                if item.path in FIELD_OF_PATH
            }
            self._changes = (tables, changes)
        return self._changes[1]

    def overrides(self) -> list[str]:
        """Return the `--set` arguments that lead from the preset to here."""
        return [f"{path}={self.text(path)}" for path in self.changes()]

    def set_text(self, path: str, text: str) -> None:
        """Set a field to what was typed; what cannot be a value stays, as wrong."""
        self.set({path: parse_value(FIELD_OF_PATH[path], text)})

    def trial(self, path: str, text: str) -> Problem | None:
        """Return what would be wrong if a text were the field's value."""
        value = parse_value(FIELD_OF_PATH[path], text)
        wrong = blocking_problems(set_value(self.tables, path, value))
        return next((item for item in wrong if item.where == path), None)

    def set(self, values: Mapping[str, Any]) -> None:
        """Set some fields as one change."""
        self._push(with_values(self.tables, values))

    def restore(self, paths: Iterable[str]) -> None:
        """Give fields the preset's values again."""
        self.set({path: value_in(self.preset.tables, path) for path in paths})

    def next_choice(self, path: str) -> bool:
        """Flip a switch or take the next choice; tell whether the field has any."""
        item = FIELD_OF_PATH[path]
        choices: Sequence[Any] = item.choices if item.kind is Kind.CHOICE else ()
        if item.kind is Kind.BOOL:
            choices = (False, True)
        if not choices:
            return False
        value = self.value(path)
        index = choices.index(value) if value in choices else -1
        self.set({path: choices[(index + 1) % len(choices)]})
        return True

    @property
    def can_undo(self) -> bool:
        """Whether there is a change to take back."""
        return self._position > 0

    @property
    def can_redo(self) -> bool:
        """Whether something was undone."""
        return self._position < len(self._states) - 1

    def undo(self) -> bool:
        """Take back the last change; tell whether there was one."""
        if not self.can_undo:
            return False
        self._position -= 1
        self.on_change()
        return True

    def redo(self) -> bool:
        """Bring back what was undone; tell whether there was something."""
        if not self.can_redo:
            return False
        self._position += 1
        self.on_change()
        return True

    def _push(self, tables: Mapping[str, Any]) -> None:
        if tables == self.tables:
            return
        self._states[self._position + 1 :] = [tables]
        self._position += 1
        self.on_change()


@dataclass(frozen=True, slots=True)
class _Checked:
    tables: Mapping[str, Any]
    spec: ExperimentSpec | None
    problems: tuple[Problem, ...]


def _has_figures(plan: Plan) -> bool:
    """Tell whether a plan is of something that could run, memory apart."""
    errors = [item for item in plan.problems if item.severity is Severity.ERROR]
    return bool(plan.step or plan.not_modelled) and not errors


def check_tables(
    tables: Mapping[str, Any],
) -> tuple[ExperimentSpec | None, tuple[Problem, ...]]:
    """Return the experiment of tables, or everything that is wrong with them."""
    # It loads the layer rules, which the first frame can do without.
    from workbench.experiment.validation import validate

    return validate(tables)


def blocking_problems(tables: Mapping[str, Any]) -> list[Problem]:
    """Return why the experiment of tables cannot start, plan included."""
    spec, problems = check_tables(tables)
    if spec is not None:
        problems += _plan(spec).problems
    return [item for item in problems if item.severity is not Severity.WARNING]


def with_values(
    tables: Mapping[str, Any], values: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return tables with other values of some fields."""
    for path, value in values.items():
        tables = set_value(tables, path, value)
    return tables


def _model(spec: ExperimentSpec | None, tables: Mapping[str, Any]) -> ModelSpec | None:
    # It loads the layer rules, which the first frame can do without.
    from workbench.experiment.resolved_model import resolved
    from workbench.experiment.validation import understood

    return resolved((spec or understood(tables)).model)[0]


def _plan(spec: ExperimentSpec) -> Plan:
    # It loads NumPy, which the first frame can do without.
    from workbench.planning.experiment_plan import plan_experiment

    return plan_experiment(spec)
