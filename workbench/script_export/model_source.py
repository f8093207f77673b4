"""The model of a script that comes from a source: loaded, built or called."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from workbench.experiment.experiment_spec import ExperimentSpec
from workbench.models.model_source import ModelSource, SourceKind
from workbench.script_export.model_file import is_json, load_lines, own_class_lines
from workbench.script_export.python_text import call, keywords, literal, printed
from workbench.script_export.script_error import ScriptError
from workbench.training.stages import assign_stages, named_calls


def source_imports(spec: ExperimentSpec) -> list[str]:
    """Return what `build_model` needs imported besides Keras."""
    if not spec.model.source:
        return []
    source = spec.model.model_source
    if source.kind is not SourceKind.FILE:
        return ["import sys"] if source.is_code else []
    lines = ["import json"] if is_json(source) and spec.model.runs_code else []
    return [*lines, "import sys"] if own_class_lines(spec, source) else lines


def source_functions(spec: ExperimentSpec) -> list[str]:
    """Return `build_model`, and `assign_stages` for a pipeline."""
    lines = ["def build_model():"]
    if spec.model.dtype != "float32":
        policy = f"set_global_policy({literal(spec.model.dtype)})"
        lines.append(f"    keras.mixed_precision.{policy}")
    functions = ["\n".join([*lines, *_build_lines(spec, spec.model.model_source)])]
    if spec.pipeline.stages:
        names = [layer.name for layer in spec.model.layers if layer.kind != "Input"]
        stages = zip(names, spec.pipeline.stages, strict=True)
        rows = [f"    {literal(name)}: {stage}," for name, stage in stages]
        functions.append("\n".join(["STAGE_OF_LAYER = {", *rows, "}"]))
        functions += [printed(named_calls), printed(assign_stages)]
    return functions


def _build_lines(spec: ExperimentSpec, source: ModelSource) -> list[str]:
    wanted: dict[str, object] = {
        name: value
        for name, value in (
            ("input_shape", source.input_shape),
            ("classes", source.classes),
        )
        if value
    }
    if source.kind is SourceKind.APPLICATION:
        assert spec.model.read is not None
        # Some of them leave the size open, which the device does not take.
        wanted["input_shape"] = spec.model.read.inputs[0].shape
        arguments = ["weights=None", *keywords(wanted)]
        name = f"keras.applications.{source.place}"
        return call(name, arguments, indent=4, before="return ")
    if source.kind is SourceKind.CAPTURE:
        raise ScriptError("the model is captured from a script: that one is there")
    if source.kind is SourceKind.FUNCTION:
        return _call_lines(spec, source, wanted)
    return load_lines(spec, source)


def _call_lines(
    spec: ExperimentSpec, source: ModelSource, wanted: Mapping[str, object]
) -> list[str]:
    in_file = source.place.endswith(".py")
    folder = os.path.dirname(source.place) if in_file else os.getcwd()
    module = Path(source.place).stem if in_file else source.place
    if in_file and not module.isidentifier():
        raise ScriptError(f"model.source: {module} is no name that can be imported")
    if spec.model.read is not None and spec.model.read.one_block:
        # A subclass finds its shape out by itself.
        wanted = {}
    return [
        f"    sys.path.insert(0, {literal(folder)})",
        f"    from {module} import {source.function} as make_model",
        "",
        *call("make_model", keywords(wanted), indent=4, before="return "),
    ]
