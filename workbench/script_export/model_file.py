"""The model of a script that is loaded from a file, with the classes that it needs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.models.model_source import ModelSource, SourceError
from workbench.models.source_files import checked_config, own_classes
from workbench.script_export.python_text import call, literal
from workbench.script_export.script_error import ScriptError


def load_lines(spec: ExperimentSpec, source: ModelSource) -> list[str]:
    """Return the lines of a function that loads the model and returns it."""
    own = own_class_lines(spec, source)
    given = ["custom_objects=own"] if own else []
    given += ["safe_mode=False"] if spec.model.runs_code else []
    if is_json(source):
        load = _from_json(spec, source, given)
    else:
        arguments = [literal(source.place), "compile=False", *given]
        load = call("keras.models.load_model", arguments, indent=4, before="model = ")
    if not source.input_shape:
        return [*own, *load, "    return model"]
    return [
        *own,
        *load,
        f"    shape, dtype = {literal(source.input_shape)}, model.inputs[0].dtype",
        "    entry = keras.Input(shape, dtype=dtype)",
        "    shaped = keras.models.clone_model(model, input_tensors=entry)",
        "    shaped.set_weights(model.get_weights())",
        "    return shaped",
    ]


def is_json(source: ModelSource) -> bool:
    """Tell whether a file holds a configuration alone."""
    return source.place.lower().endswith(".json")


def _from_json(
    spec: ExperimentSpec, source: ModelSource, given: Sequence[str]
) -> list[str]:
    opening = f'    with open({literal(source.place)}, encoding="utf-8") as file:'
    if not spec.model.runs_code:
        return [opening, "        model = keras.models.model_from_json(file.read())"]
    # Only this one takes the word that what the file holds may run.
    make = "keras.utils.deserialize_keras_object"
    made = call(make, ["config", *given], indent=4, before="model = ")
    return [opening, "        config = json.load(file)", *made]


def own_class_lines(spec: ExperimentSpec, source: ModelSource) -> list[str]:
    """Return the lines that import the user's classes, which lie beside the file."""
    if not spec.model.runs_code:
        return []
    try:
        config = checked_config(Path(source.place), trust=True)
    except SourceError as error:
        raise ScriptError(f"model.source: {error}") from error
    found = {registered: own for *own, registered in own_classes(config)}
    if not found:
        return []
    for module, name in found.values():
        if not all(part.isidentifier() for part in (*module.split("."), name)):
            raise ScriptError(f"model.source: {module}.{name} cannot be imported")
    folder = literal(os.path.dirname(source.place))
    classes = (
        f"        {literal(registered)}: {module}.{name},"
        for registered, (module, name) in found.items()
    )
    return [
        f"    sys.path.insert(0, {folder})",
        *(
            f"    import {module}"
            for module in sorted({own[0] for own in found.values()})
        ),
        "",
        "    own = {",
        *classes,
        "    }",
    ]
