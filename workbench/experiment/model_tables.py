"""The `[model]` table of a model that comes from a source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ipu_runtime.plan.problem import Problem
from workbench.experiment.experiment_spec import Model
from workbench.experiment.layer_blocks import LAYER_KEYS
from workbench.models.model_source import (
    FILE_ENDINGS,
    SourceError,
    not_read,
    parse_source,
)

if TYPE_CHECKING:
    from workbench.models.source_model import SourceModel

CONTENT = "content"
"""Key under which a record keeps what its source held."""
TRUSTED = "trusted"
"""What a file may not say of itself: see `workbench.models.code_trust`."""

_Problems = tuple[Problem, ...]


def sourced_model(
    fields: Mapping[str, Any], table: Mapping[str, Any]
) -> tuple[Model, _Problems]:
    """Return the model of a table with a source, as far as it has been read before."""
    model = Model(**fields, layers=())
    for key in LAYER_KEYS:
        if key in table:
            text, hint = f"stands beside model.{key}", "keep one of both"
            return model, (Problem("model.source", text, hint),)
    if model.dtype != "float32" and model.source.lower().endswith(FILE_ENDINGS):
        text = f"{model.dtype} cannot be given to a file: its layers have their types"
        problem = Problem("model.dtype", text, "use float32", suggestion="float32")
        return model, (problem,)
    try:
        return _known(model, table.get(CONTENT)), ()
    except SourceError as error:
        return model, (error.as_problem(),)


def _known(model: Model, wanted: Any) -> Model:
    # Late, because few experiments have a source.
    from workbench.models.code_trust import check_may_run
    from workbench.models.source_files import content_key
    from workbench.models.source_model import load_source_model

    source = model.model_source
    key = content_key(source)
    if wanted and wanted != key:
        raise SourceError(
            f"{source.text} is not what it was when this was recorded",
            "bring the model back as it was, or start anew from the source",
        )
    if source.is_code:
        check_may_run(source)
    read = load_source_model(key)
    if read is None:
        raise not_read(source)
    if read.holds_code:
        check_may_run(source)
    layers = tuple(layer.spec for layer in read.spec.layers) if read.spec else ()
    runs_code = source.is_code or read.holds_code
    return replace(
        model,
        source=source.text,
        layers=layers,
        content=key,
        runs_code=runs_code,
        read=read,
    )


def with_source_read(
    tables: Mapping[str, Any],
    tell: Callable[[str], None],
    *,
    trust: bool,
    calls: bool,
    named: bool = False,
) -> tuple[dict[str, Any], SourceModel | None, _Problems]:
    """Read the source of an experiment, if it has one that is not read yet.

    Args:
        tables: The experiment.
        tell: Told that TensorFlow is loaded.
        trust: Whether the user says that its code may run.
        calls: Whether it may run now; otherwise what was read before has to do.
        named: Whether the user has named the source for this very purpose, which for a
            function is to say that it may run; who names a file means its data.
    """
    model = tables.get("model")
    text = model.get("source") if isinstance(model, Mapping) else None
    if not isinstance(model, Mapping) or not isinstance(text, str) or not text:
        return dict(tables), None, ()
    shape, classes = model.get("input_shape", ()), model.get("classes", 0)
    sound = isinstance(shape, list | tuple) and all(type(n) is int for n in shape)
    dtype = model.get("dtype", "float32")
    if not sound or type(classes) is not int or dtype not in ("float32", "float16"):
        # The check of the fields says what is wrong.
        return dict(tables), None, ()
    from workbench.models.source_files import content_key
    from workbench.models.source_reading import read_source

    try:
        source = parse_source(text, tuple(shape), classes, dtype)
        if model.get(CONTENT) not in (None, content_key(source)):
            # Nothing of it is to run; the check of the experiment says why.
            return dict(tables), None, ()
        read = read_source(
            source, tell, trust=trust or (named and source.is_code), calls=calls
        )
    except SourceError as error:
        return dict(tables), None, (error.as_problem(),)
    return dict(tables), read, ()


def tables_for_file(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables for a preset: it trusts nothing, and its model may change."""
    kept = dict(tables)
    for section in ("data", "model"):
        table = tables.get(section)
        if isinstance(table, Mapping):
            known = (TRUSTED, CONTENT)
            kept[section] = {k: v for k, v in table.items() if k not in known}
    return kept
