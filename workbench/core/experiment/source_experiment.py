"""An experiment around a model of the user's own, with values that can be run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.core.experiment.preset_store import Preset
from workbench.core.experiment.tables import field_value
from workbench.core.models.model_source import parse_source

if TYPE_CHECKING:
    from workbench.core.models.source_model import SourceModel


def source_preset(text: str) -> Preset:
    """Return a preset for a source: made-up data, and a short training."""
    source = parse_source(text)
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


def without_counts(preset: Preset) -> Preset:
    """Return it for data of the user's own, which are taken whole."""
    counts = ("train_samples", "test_samples")
    data = preset.tables["data"]
    kept = {name: value for name, value in data.items() if name not in counts}
    return replace(preset, tables={**preset.tables, "data": kept})


def with_suitable_loss(tables: Mapping[str, Any], read: SourceModel) -> dict[str, Any]:
    """Return the experiment with the loss that suits the outputs, if it has none."""
    if field_value(tables, "train.loss") is not None:
        return dict(tables)
    labels, loss = "categorical", "mse"
    if _is_classifier(read):
        labels, loss = "sparse", "sparse_categorical_crossentropy"
    if field_value(tables, "data.labels") == "categorical" and loss != "mse":
        loss = "categorical_crossentropy"
    data = tables.get("data", {})
    return {
        **tables,
        "data": {**data, "labels": data.get("labels", labels)},
        "train": {**tables.get("train", {}), "loss": loss},
    }


def _is_classifier(read: SourceModel) -> bool:
    """Tell whether every output is a softmax over classes."""
    if read.spec is None:
        return False
    ends = [layer for layer in read.spec.layers if layer.name in read.spec.outputs]
    return len(ends) == len(read.outputs) and all(
        layer.kind == "Softmax" or layer.spec.settings.get("activation") == "softmax"
        for layer in ends
    )
