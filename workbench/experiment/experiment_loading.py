"""An experiment as a command asks for it: preset, environment, changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ipu_runtime.plan.problem import Problem
from workbench.data.dataset_facts import (
    NAMED,
    DatasetError,
    DatasetFacts,
    data_facts,
    with_label_range,
)
from workbench.experiment.data_tables import with_data_read
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.experiment.model_tables import CONTENT, with_source_read
from workbench.experiment.overrides import (
    apply_overrides,
    environment_overrides,
    variable_of_field,
)
from workbench.experiment.preset_store import (
    Preset,
    PresetError,
    load_preset,
)
from workbench.experiment.suitable_loss import with_suitable_loss
from workbench.experiment.tables import field_value
from workbench.experiment.validation import understood, validate
from workbench.models.code_trust import needs_trust
from workbench.models.model_source import (
    ModelSource,
    SourceError,
    looks_like_function,
    looks_like_source,
    parse_source,
)

_SOURCE = "model.source="
_DATASET = "data.dataset="
_SOURCE_OF = {"model": "model.source", "data": "data.dataset"}


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
    losses: tuple[str, ...] = ()
    """The losses that were chosen for the outputs of a source, and why."""


def load_experiment(
    name_or_path: str,
    changes: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
    *,
    trust: bool = False,
    calls: bool = True,
    tell: Callable[[str], None] = lambda text: None,
) -> LoadedExperiment:
    """Return a preset as changed by the environment and then by `a.b=c` changes.

    Args:
        name_or_path: A preset, or the source of a model.
        changes: What is changed in it.
        environment: Variables that change fields too.
        trust: Whether the user says that code of the model or the data may run; to
            name a function in the command says so too.
        calls: Whether it may run now; otherwise what was read before has to do.
        tell: Told when TensorFlow is loaded, to read a source for the first time.
    """
    is_source = looks_like_source(name_or_path)
    preset = source_preset(name_or_path) if is_source else load_preset(name_or_path)
    from_environment = environment_overrides(environment or {})
    from_command = list(changes)
    if is_source and _names_own_data((*from_environment, *from_command)):
        preset = _without_counts(preset)
    tables, wrong_variables = apply_overrides(preset.tables, from_environment)
    tables, wrong_changes = apply_overrides(tables, from_command)
    problems: tuple[Problem, ...] = ()
    chosen: tuple[str, ...] = ()
    if not (wrong_variables or wrong_changes):
        named = is_source or any(text.startswith(_SOURCE) for text in from_command)
        tables, read, problems = with_source_read(
            tables, tell, trust=trust, calls=calls, named=named
        )
        named = any(text.startswith(_DATASET) for text in from_command)
        tables, wrong = with_data_read(tables, tell, trust=trust or named, calls=calls)
        problems += wrong
        if is_source and read is not None:
            tables, chosen = with_suitable_loss(tables, read, _facts(tables))
    spec, found = validate(tables) if not problems else (None, ())
    problems = (*problems, *found)
    # A change that was refused is not in the tables: what it would have repaired
    # would be reported although the user has dealt with it.
    refused = (*wrong_variables, *wrong_changes)
    return LoadedExperiment(
        preset,
        tables,
        None if refused else spec,
        refused or problems,
        _sources(preset, from_environment, from_command),
        chosen,
    )


def recorded_experiment(
    tables: Mapping[str, Any],
    tell: Callable[[str], None] = lambda text: None,
    *,
    trust: bool = False,
    calls: bool = True,
) -> tuple[ExperimentSpec | None, tuple[Problem, ...]]:
    """Return the experiment of a run's record; its source must be what it was.

    Args:
        tables: The experiment, as the record has it.
        tell: Told when TensorFlow is loaded.
        trust: Whether the user says that its code may run; a record cannot.
        calls: Whether it may run now; otherwise what was read before has to do.
    """
    unknown = (*unknown_content(tables),)
    if unknown:
        return None, unknown
    return read_and_checked(tables, tell, trust=trust, calls=calls)


def read_and_checked(
    tables: Mapping[str, Any],
    tell: Callable[[str], None] = lambda text: None,
    *,
    trust: bool = False,
    calls: bool = True,
) -> tuple[ExperimentSpec | None, tuple[Problem, ...]]:
    """Return an experiment whose sources may not have been read yet."""
    tables, _, problems = with_source_read(tables, tell, trust=trust, calls=calls)
    tables, wrong = with_data_read(tables, tell, trust=trust, calls=calls)
    problems += wrong
    return (None, problems) if problems else validate(tables)


def untrusted_sources(tables: Mapping[str, Any]) -> dict[str, ModelSource]:
    """Return the code to ask the user about, by the field that names it."""
    found = {}
    for section, text in _sources_in(tables):
        # What names nothing is said where the experiment is checked.
        with suppress(SourceError):
            source = parse_source(text)
            if needs_trust(source):
                found[_SOURCE_OF[section]] = source
    return found


def unknown_content(tables: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what a record says nothing of: it could be anything by now."""
    for section, text in _sources_in(tables):
        known = field_value(tables, f"{section}.{CONTENT}")
        if not isinstance(known, str) or not known:
            problem = f"the record does not say what {text} held"
            yield Problem(_SOURCE_OF[section], problem, "start anew from the source")


def _sources_in(tables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the sections that name a model or a function, and the name."""
    for section, path in _SOURCE_OF.items():
        text = field_value(tables, path)
        looks = looks_like_source if section == "model" else looks_like_function
        if isinstance(text, str) and looks(text):
            yield section, text


def source_preset(text: str) -> Preset:
    """Return a preset for a model of the user's own: made-up data, a short training."""
    try:
        source = parse_source(text)
    except SourceError as error:
        raise PresetError(text, error.problem, error.hint) from error
    shown = source.text.rpartition(os.sep)[2]
    tables = {
        "experiment": {"name": source.title, "title": f"Own model {shown}"},
        "data": {
            "dataset": "synthetic",
            "batch_size": 8,
            "train_samples": 256,
            "test_samples": 64,
        },
        "model": {"source": source.text},
        "train": {"optimizer": "adam", "learning_rate": 0.001, "epochs": 1},
        "execution": {"api": "ipu_strategy", "steps_per_execution": "epoch"},
    }
    return Preset(source.title, Path(source.text), tables)


def _facts(tables: Mapping[str, Any]) -> DatasetFacts | None:
    """Return what is known of an experiment's data; None if they are made up."""
    if field_value(tables, "data.dataset") in (None, "synthetic"):
        return None
    data = understood(tables).data
    try:
        return with_label_range(data_facts(data), data.dataset)
    except DatasetError:
        # The check of the data says so.
        return None


def _names_own_data(changes: Iterable[str]) -> bool:
    named = [text for text in changes if text.startswith(_DATASET)]
    return bool(named) and named[-1].removeprefix(_DATASET) not in NAMED


def _without_counts(preset: Preset) -> Preset:
    """Return it for data of the user's own, which are taken whole."""
    counts = ("train_samples", "test_samples")
    data = preset.tables["data"]
    kept = {name: value for name, value in data.items() if name not in counts}
    return replace(preset, tables={**preset.tables, "data": kept})


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
