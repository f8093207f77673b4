"""An experiment as nested tables, as its TOML file would state it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ipu_runtime.plan.config.config_fields import IPU_CONFIG_FIELD
from ipu_runtime.plan.model.model_spec import LayerSpec
from workbench.experiment.experiment_fields import FIELD_OF_PATH
from workbench.experiment.experiment_spec import (
    Data,
    ExperimentSpec,
    Figure,
    Model,
    Pipeline,
    Train,
)
from workbench.experiment.ipu_tables import nested_ipu
from workbench.experiment.model_tables import CONTENT
from workbench.experiment.toml_text import to_toml

__all__ = ["field_value", "spec_to_tables", "spec_value", "to_toml", "value_in"]


def spec_to_tables(spec: ExperimentSpec) -> dict[str, Any]:
    """Return every value of an experiment; validating it gives the same experiment."""
    experiment = asdict(spec.experiment)
    experiment["figures"] = [_figure(figure) for figure in spec.experiment.figures]
    tables: dict[str, Any] = {
        "experiment": experiment,
        "data": _data(spec.data),
        "model": _model(spec.model),
        "train": _with_lists(spec.train),
        "execution": asdict(spec.execution),
        "pipeline": _with_lists(spec.pipeline),
    }
    if spec.ipu:
        tables["ipu"] = nested_ipu(spec.ipu)
    return tables


def _with_lists(section: Train | Pipeline) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(section).items()
    }


def field_value(tables: Mapping[str, Any], path: str) -> Any:
    """Return the value that tables give for a dotted path, or None if they do not."""
    if path.startswith("ipu."):
        dotted = tables.get("ipu", {})
        if isinstance(dotted, Mapping) and path[4:] in dotted:
            return dotted[path[4:]]
    value: Any = tables
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def value_in(tables: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path of nested tables, or the field's default."""
    value = field_value(tables, path)
    return FIELD_OF_PATH[path].default if value is None else value


def spec_value(spec: ExperimentSpec, path: str) -> Any:
    """Return an experiment's value for a dotted path, defaults included."""
    section, _, name = path.partition(".")
    if section == "ipu":
        return spec.ipu.get(name, IPU_CONFIG_FIELD[name].default)
    value = getattr(getattr(spec, section), name)
    return list(value) if isinstance(value, tuple) else value


def _data(data: Data) -> dict[str, Any]:
    known = ("read", CONTENT)
    table = {k: v for k, v in asdict(data).items() if k not in known}
    if data.content:
        table[CONTENT] = data.content
    return table


def _model(model: Model) -> dict[str, Any]:
    if not model.source:
        layers = [_layer(layer) for layer in model.layers]
        return {"dtype": model.dtype, "layers": layers}
    return {
        "dtype": model.dtype,
        "source": model.source,
        "input_shape": list(model.input_shape),
        "classes": model.classes,
        CONTENT: model.content,
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {name: value for name, value in asdict(figure).items() if value is not None}


def _layer(layer: LayerSpec) -> dict[str, Any]:
    table: dict[str, Any] = {"name": layer.name, "kind": layer.kind}
    if layer.inputs:
        table["inputs"] = list(layer.inputs)
    return {**table, **layer.settings}
