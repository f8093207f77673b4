"""The `[data]` table of data that a function of the user's gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ipu_runtime.plan.problem import Problem
from workbench.data.dataset_facts import NAMED, DatasetError
from workbench.experiment.experiment_spec import Data
from workbench.experiment.model_tables import CONTENT
from workbench.models.code_trust import allow, check_may_run, may_run
from workbench.models.model_source import (
    SourceError,
    anchored,
    looks_like_function,
    parse_source,
)
from workbench.models.source_files import content_key

_Problems = tuple[Problem, ...]
_DATASET = "data.dataset"


def function_data(
    fields: Mapping[str, Any], table: Mapping[str, Any]
) -> tuple[Data, _Problems]:
    """Return the data of a table, those of a function as they were read before."""
    data = Data(**fields)
    if not looks_like_function(data.dataset):
        return data, ()
    try:
        return _known(data, table.get(CONTENT)), ()
    except SourceError as error:
        return data, (error.as_problem(_DATASET),)


def _known(data: Data, wanted: Any) -> Data:
    # Late, because few experiments have such data.
    from workbench.data.data_function import known_function_facts

    source = parse_source(data.dataset)
    key = content_key(source)
    if wanted and wanted != key:
        raise SourceError(
            f"{source.text} is not what it was when this was recorded",
            "bring the function back as it was, or start anew",
        )
    check_may_run(source)
    read = known_function_facts(source, data.test_share)
    if read is None:
        hint = "plan the experiment on the command line first"
        raise SourceError(f"{source.text} has not been read yet", hint)
    return replace(data, dataset=source.text, content=key, read=read)


def with_data_read(
    tables: Mapping[str, Any],
    tell: Callable[[str], None],
    *,
    trust: bool,
    calls: bool,
) -> tuple[dict[str, Any], _Problems]:
    """Call the function that gives an experiment's data, if that is not done yet.

    Args:
        tables: The experiment.
        tell: Told that TensorFlow is loaded.
        trust: Whether the user says that the function may run.
        calls: Whether it may run now; otherwise what was read before has to do.
    """
    data = tables.get("data")
    text = data.get("dataset") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(text, str):
        return dict(tables), ()
    if not looks_like_function(text):
        return dict(tables), ()
    from workbench.data.data_function import read_function

    try:
        source = parse_source(text)
        if data.get(CONTENT) not in (None, content_key(source)):
            # Nothing of it is to run; the check of the experiment says why.
            return dict(tables), ()
        if trust:
            allow(source)
        if calls and may_run(source):
            read_function(source, 0.0, tell)
    except SourceError as error:
        return dict(tables), (error.as_problem(_DATASET),)
    except DatasetError as error:
        return dict(tables), (Problem(_DATASET, error.problem, error.hint),)
    return dict(tables), ()


def data_beside(dataset: str, folder: Path) -> str:
    """Return data that a file in a directory names; what lies beside it is meant."""
    if dataset in NAMED:
        return dataset
    if looks_like_function(dataset):
        return anchored(dataset, folder)
    beside = folder.absolute() / dataset
    try:
        return str(beside) if dataset and beside.exists() else dataset
    except (OSError, ValueError):
        # The check of the data says what is wrong with the name.
        return dataset
